//go:build !linux

package folder

import (
	stderrors "errors"
	"os"
)

// Only Linux supports files without a name.

func (f *Folder) makesUnnamed() bool { return false }

func (f *Folder) createUnnamed() (*os.File, error) { return nil, stderrors.ErrUnsupported }

func (n *File) linkUnnamed(string) error { return stderrors.ErrUnsupported }
