// Package folder is a folder into which strangers may put files. A name is a plain
// one or is refused, never mended. Nothing is overwritten: who comes second with a
// name is refused, however close the two come. A file has its name only once it is
// whole and on the disk; before, it has none at all where the file system allows
// that, so that even a killed process leaves nothing behind.
package folder

import (
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/docker/go-units"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Folder is an open folder. Its methods may be called by several goroutines at
// once.
type Folder struct {
	path string
	root *os.Root
	dir  *os.File // the folder itself

	// unnamed says that the file system can make files that have no name yet.
	// Others (NFS, 9p, FAT) get a hidden one, which a killed process leaves.
	unnamed bool
}

// Open opens a folder. A file is made in it, named and removed again, so that
// what its file system does not allow is known before anybody sends anything.
func Open(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("the folder %s: %w; try: a folder that exists", path, reason(err))
	}
	f := &Folder{path: path, root: root}
	if f.dir, err = root.Open("."); err == nil {
		f.unnamed = f.makesUnnamed()
		err = f.probe()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Folder) probe() error {
	file, err := f.Create()
	if err != nil {
		return err
	}
	defer file.Close()
	name := hiddenName()
	if err := file.link(name); err != nil {
		return fmt.Errorf("a file in the folder %s cannot be given its name: %w; try: a folder of a file system with hard links", f.path, reason(err))
	}
	return f.root.Remove(name)
}

// Close closes the folder; files that are being written are not affected.
func (f *Folder) Close() error {
	var err error
	if f.dir != nil {
		err = f.dir.Close()
	}
	return stderrors.Join(err, f.root.Close())
}

// Admit refuses a file that could not be kept: one whose name is not plain or
// taken, or whose size in bytes is more than there is room for. Only
// [File.Commit] decides, since names and room may go meanwhile.
func (f *Folder) Admit(name string, size int64) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch _, err := f.root.Lstat(name); {
	case err == nil:
		return errTaken(name)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the file name %q: %w; try: another", name, reason(err))
	}
	var at unix.Statfs_t
	if err := unix.Fstatfs(int(f.dir.Fd()), &at); err != nil {
		return fmt.Errorf("the room in the folder %s: %w; try: looking at its file system", f.path, err)
	}
	if free := float64(at.Bavail) * float64(at.Bsize); float64(size) > free {
		return errors.Errorf("the file has %s (%d bytes), and the server's folder has room for %s; try: a smaller file, or making room there",
			units.BytesSize(float64(size)), size, units.BytesSize(free))
	}
	return nil
}

func errTaken(name string) error {
	return errors.Errorf("the server has a file %q already, and overwrites none; try: another name", name)
}

// reason is the errno in an error of package os, whose own text repeats paths.
func reason(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
