//go:build !linux

// This file is for systems where nothing says that addresses have changed.

package link

// Watch says whether the host's interfaces or addresses have changed.
type Watch struct{}

// NewWatch begins to watch.
func NewWatch() *Watch { return &Watch{} }

// Changed is always true: they may have.
func (*Watch) Changed() bool { return true }

// Close ends it.
func (*Watch) Close() {}
