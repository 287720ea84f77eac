package folder

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// makesUnnamed reports whether the file system supports files without a name, and /proc,
// which names them, is mounted.
func (f *Folder) makesUnnamed() bool {
	file, err := f.createUnnamed()
	if err != nil {
		return false
	}
	defer file.Close()
	_, err = os.Lstat(procPath(file))
	return err == nil
}

func (f *Folder) createUnnamed() (*os.File, error) {
	fd, err := unix.Openat(int(f.dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "a file in "+f.path), nil
}

func (n *File) linkUnnamed(name string) error {
	return unix.Linkat(unix.AT_FDCWD, procPath(n.file), int(n.folder.dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

func procPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
