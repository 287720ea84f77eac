// File: a file that is being written to a folder.

package folder

import (
	"crypto/rand"
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// flushEvery is the number of bytes after which a file is flushed to the disk. It keeps
// the flush of Commit short.
const flushEvery = 64 << 20

// File is a file that gets its name when it is complete. It is for one goroutine.
type File struct {
	folder    *Folder
	file      *os.File
	hidden    string // its temporary name; "" if the file system supports unnamed files
	kept      bool   // Close leaves the hidden file
	size      int64  // its bytes, while it has no name at all; under the folder's lock
	unflushed int

	delivered string // of a partial file: its temporary name after Commit; "" for others
	complete  bool   // hidden is delivered
}

// Create creates an empty file with mode 0644 minus the umask. The caller must call
// Close.
func (f *Folder) Create() (*File, error) {
	n := &File{folder: f}
	var err error
	if f.unnamed {
		n.file, err = f.createUnnamed()
	} else {
		n.hidden = hiddenName()
		n.file, err = f.root.OpenFile(n.hidden, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("create a file in the folder %s: %w; try: a folder that the server may write to", f.path, reason(err))
	}
	return n, nil
}

const mode = 0o644

// hiddenName returns a random temporary name.
func hiddenName() string { return hiddenFor(rand.Text()) }

// Write appends data to the file.
func (n *File) Write(data []byte) (int, error) {
	if err := n.folder.take(n, int64(len(data))); err != nil {
		return 0, err
	}
	written, err := n.file.Write(data)
	n.folder.wrote(n, int64(len(data)), int64(written))
	if err != nil {
		return written, fmt.Errorf("write to the folder %s: %w; try: %s", n.folder.path, reason(err), remedy(err))
	}
	n.unflushed += written
	if n.unflushed >= flushEvery {
		return written, n.flush()
	}
	return written, nil
}

func (n *File) flush() error {
	n.unflushed = 0
	if err := n.file.Sync(); err != nil {
		return fmt.Errorf("flush to the folder %s: %w; try: %s", n.folder.path, reason(err), remedy(err))
	}
	return nil
}

func remedy(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "a smaller file, or free space there"
	case errors.Is(err, unix.EFBIG):
		return "a smaller file, or a higher limit for the server (ulimit -f)"
	}
	return "dmesg, for errors of the disk"
}

// Commit flushes the file to the disk, then gives it its name. It fails if another file
// has the name. It succeeds again for a partial file that was given the name. Do not call Write after Commit.
func (n *File) Commit(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if n.complete {
		return nil
	}
	if err := n.flush(); err != nil {
		return err
	}
	if err := n.link(name); errors.Is(err, fs.ErrExist) && !n.isNamed(name) {
		return errTaken(name)
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("name the file %q in the folder %s: %w; try: ls -ld on that folder", name, n.folder.path, reason(err))
	}
	if err := n.deliver(); err != nil {
		return fmt.Errorf("note in the folder %s that the file %q is complete: %w; try: ls -ld on that folder", n.folder.path, name, reason(err))
	}
	// Flush the name as well. File systems that need no such flush return EINVAL.
	if err := n.folder.dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("flush the folder %s: %w; try: dmesg, for errors of the disk", n.folder.path, reason(err))
	}
	return nil
}

// link gives the file its name, atomically, and fails if the name exists. Of several
// files that want one name, link therefore succeeds for exactly one.
func (n *File) link(name string) error {
	if n.hidden == "" {
		err := n.linkUnnamed(name)
		if err == nil {
			n.folder.name(n)
		}
		return err
	}
	return n.folder.root.Link(n.hidden, name)
}

// Close closes the file. A file that was not committed is removed, unless Keep was called.
func (n *File) Close() error {
	var err error
	if n.hidden == "" {
		n.folder.lose(n, n.size)
	} else if !n.kept {
		names, bytes := n.stat()
		if names != 1 { // it has another name
			bytes = 0
		}
		err = n.folder.giveBack(n, bytes, func() error { return n.folder.root.Remove(n.hidden) })
	}
	return stderrors.Join(err, n.file.Close())
}
