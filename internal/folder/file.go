// A file on its way into the folder.

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

// flushEvery is after how many bytes a file is brought to the disk, so that
// Commit never has much left to do, and its caller never long to wait.
const flushEvery = 64 << 20

// File is a file that has no name yet. It is for one goroutine.
type File struct {
	folder    *Folder
	file      *os.File
	hidden    string // the name that it has meanwhile; "" where it needs none
	unflushed int
}

// Create makes an empty file, for which anybody may read and the owner write, as
// far as the umask allows. Close must follow.
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
		return nil, fmt.Errorf("making a file in the folder %s: %w; try: a folder that the server may write to", f.path, reason(err))
	}
	return n, nil
}

const mode = 0o644

// hiddenName is one that no stranger can choose, and nobody else has.
func hiddenName() string { return ".rdma_server-" + rand.Text() + ".part" }

// Write appends to the file.
func (n *File) Write(data []byte) (int, error) {
	written, err := n.file.Write(data)
	if err != nil {
		return written, fmt.Errorf("writing to the folder %s: %w; try: %s", n.folder.path, reason(err), remedy(err))
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
		return fmt.Errorf("flushing to the folder %s: %w; try: %s", n.folder.path, reason(err), remedy(err))
	}
	return nil
}

func remedy(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "a smaller file, or making room there"
	case errors.Is(err, unix.EFBIG):
		return "a smaller file, or a higher limit for the server (ulimit -f)"
	}
	return "looking at the disk (dmesg)"
}

// Commit brings the file to the disk and then gives it its name, unless somebody
// else has it. Nothing can be written after it.
func (n *File) Commit(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := n.flush(); err != nil {
		return err
	}
	if err := n.link(name); errors.Is(err, fs.ErrExist) {
		return errTaken(name)
	} else if err != nil {
		return fmt.Errorf("giving the file its name %q in the folder %s: %w; try: looking at the folder", name, n.folder.path, reason(err))
	}
	// Now the name as well; some file systems have nothing to do for it, and say EINVAL.
	if err := n.folder.dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("flushing the folder %s: %w; try: looking at the disk (dmesg)", n.folder.path, reason(err))
	}
	return nil
}

// link gives the file a name that there is not, in one step, and so is the one
// place where it is decided who has it.
func (n *File) link(name string) error {
	if n.hidden == "" {
		return n.linkUnnamed(name)
	}
	return n.folder.root.Link(n.hidden, name)
}

// Close ends the work on the file: one that was not committed is gone.
func (n *File) Close() error {
	var err error
	if n.hidden != "" {
		err = n.folder.root.Remove(n.hidden)
	}
	return stderrors.Join(err, n.file.Close())
}
