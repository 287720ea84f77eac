// Package folder stores files of untrusted clients in one directory.
//
//   - A name that is not plain is refused, never changed: see [CheckName].
//   - No file is overwritten. If two files want one name at the same time, one is refused.
//   - A file gets its name only when it is complete and on the disk. Until then it has no
//     name, if the file system supports that, so a killed process leaves no file behind.
//   - A partial file has a hidden name, and stays for an hour: see [Folder.Partial].
//   - All files together have a limit, and a part of the file system stays free: see space.go.
package folder

import (
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Folder is an open directory. Several goroutines may call its methods at once.
type Folder struct {
	path string
	root *os.Root

	sweeper *time.Timer // calls tick
	dir     *os.File    // the directory itself
	space

	// unnamed reports whether the file system supports files without a name. On other
	// file systems (NFS, 9p, FAT) a new file has a hidden name. A killed process
	// leaves such a file behind.
	unnamed bool
}

// Open opens the directory path, whose files may have most bytes together; 0 is what they have and half of what is free.
// It creates, names and removes a test file, so that it reports a missing right or feature before a client
// sends anything.
func Open(path string, most int64) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("the folder %s: %w; try: a folder that exists", path, reason(err))
	}
	f := &Folder{path: path, root: root}
	f.free = f.freeSpace
	if f.dir, err = root.Open("."); err == nil {
		f.unnamed = f.makesUnnamed()
		err = f.probe()
		f.sweep(Kept)
	}
	if err == nil {
		err = f.measure(most)
	}
	f.mu.Lock()
	f.sweeper = time.AfterFunc(sweepEvery, f.tick)
	f.mu.Unlock()
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
		return fmt.Errorf("name a file in the folder %s: %w; try: a folder on a file system with hard links", f.path, reason(err))
	}
	return f.root.Remove(name)
}

// Close closes the folder. Its files must be closed before.
func (f *Folder) Close() error {
	f.mu.Lock()
	f.closed = true
	f.sweeper.Stop()
	f.mu.Unlock()
	var err error
	if f.dir != nil {
		err = f.dir.Close()
	}
	return stderrors.Join(err, f.root.Close())
}

// Admit returns an error if a file of this name and size, in bytes, cannot be stored: the
// name is not plain or is taken, or there is too little room.
// [File.Commit] can still fail, because names and space may be taken after Admit.
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
	return f.checkRoom(size)
}

func errTaken(name string) error {
	return errors.Errorf("the server already has a file %q and does not overwrite it; try: another name", name)
}

// reason returns the errno in an error of package os, without the paths that os adds.
func reason(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
