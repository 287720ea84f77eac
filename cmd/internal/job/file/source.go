// The file that a client sends: only regular files are sent, and a file that changes meanwhile
// is an error.

package file

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// source is an open file that is read once, from its beginning to its end.
type source struct {
	*os.File
	path  string
	began unix.Stat_t // at the opening
}

// openSource opens a regular file or a symbolic link to one.
func openSource(path string) (*source, error) {
	// Check before opening, because opening a device may have effects.
	info, err := os.Stat(path)
	if err == nil {
		err = regular(path, info.Mode())
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	// Do not wait for a writer if the file has become a pipe meanwhile.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(path, err)
	}
	s := &source{File: file, path: path}
	if info, err = file.Stat(); err == nil {
		err = regular(path, info.Mode())
	}
	if err == nil {
		s.began, err = s.stat()
	}
	if err != nil {
		file.Close()
		return nil, unreadable(path, err)
	}
	return s, nil
}

func regular(path string, mode fs.FileMode) error {
	try := "a regular file with a copy of its data"
	kind := "a device or a socket"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind, try = "a directory", "one of its files, or a tar file of it (tar -cf FILE)"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	}
	return errors.Errorf("--file %s is %s, but only regular files can be sent; try: %s", path, kind, try)
}

// unreadable adds a remedy to an error of the system.
func unreadable(path string, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("--file %s: %w; try: a file that you may read", path, errno)
	}
	return err
}

func (s *source) stat() (at unix.Stat_t, err error) {
	err = unix.Fstat(int(s.Fd()), &at)
	return at, err
}

// size returns the file's size at the opening.
func (s *source) size() int64 { return s.began.Size }

// fill reads the next len(buf) bytes, which the file had at the opening.
func (s *source) fill(buf []byte) error {
	switch _, err := io.ReadFull(s, buf); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.changed("it has become shorter")
	case err != nil:
		return unreadable(s.path, err)
	}
	return nil
}

// unchanged returns an error if the file changed while it was read. It compares the size and
// the times of the last changes with those at the opening, and checks that the file ends where
// it ended.
func (s *source) unchanged() error {
	var more [1]byte
	if n, err := s.Read(more[:]); n > 0 {
		return s.changed("it has become longer")
	} else if err != nil && !errors.Is(err, io.EOF) {
		return unreadable(s.path, err)
	}
	now, err := s.stat()
	switch {
	case err != nil:
		return unreadable(s.path, err)
	case now.Size != s.began.Size:
		return s.changed(fmt.Sprintf("it had %d bytes and now has %d", s.began.Size, now.Size))
	case now.Mtim != s.began.Mtim || now.Ctim != s.began.Ctim:
		return s.changed("its times show that it was written to")
	}
	return nil
}

func (s *source) changed(how string) error {
	return errors.Errorf("the file %s changed while it was sent: %s; try: a copy of it", s.path, how)
}
