//go:build !linux

package folder

import (
	"errors"
	"os"
)

// Only Linux makes files without a name.

func (f *Folder) makesUnnamed() bool { return false }

func (f *Folder) createUnnamed() (*os.File, error) { return nil, errors.ErrUnsupported }

func (n *File) linkUnnamed(string) error { return errors.ErrUnsupported }
