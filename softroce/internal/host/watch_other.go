//go:build !linux

// Watch on systems without notifications.

package host

// Watch reports whether the host's interfaces or addresses have changed.
type Watch struct{}

// NewWatch returns a Watch.
func NewWatch() *Watch { return &Watch{} }

// Changed always returns true, because this system does not report changes.
func (*Watch) Changed() bool { return true }

// Wait returns false.
func (*Watch) Wait() bool { return false }

// Close does nothing.
func (*Watch) Close() {}
