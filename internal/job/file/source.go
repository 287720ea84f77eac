// The file that a client sends: what may be one, and whether it stays as it was
// while it is read.

package file

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// source is an open file that is read from its beginning to its end, once.
type source struct {
	*os.File
	path  string
	began unix.Stat_t // when it was opened
}

// openSource opens a regular file, or what a symbolic link to one points at.
func openSource(path string) (*source, error) {
	// Asked before the opening, which of a device may do something.
	info, err := os.Stat(path)
	if err == nil {
		err = regular(path, info.Mode())
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	// Should it have become a pipe meanwhile, the opening does not wait for a writer.
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
	try := "a copy of what it gives, in a file"
	kind := "a device or a socket"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind, try = "a directory", "one of its files, or tar -cf FILE of it"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	}
	return errors.Errorf("--file %s is %s, and only regular files are sent; try: %s", path, kind, try)
}

// unreadable adds a remedy to an error of the system's.
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

// size is how many bytes the file had when it was opened.
func (s *source) size() int64 { return s.began.Size }

// fill reads the next len(buf) bytes, of which the file had that many.
func (s *source) fill(buf []byte) error {
	switch _, err := io.ReadFull(s, buf); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.changed("it has become shorter")
	case err != nil:
		return unreadable(s.path, err)
	}
	return nil
}

// unchanged, once all was read, says whether that is one state of the file: its
// size and the times of its last changes are those of the beginning, and its end
// is where it was.
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
		return s.changed("its times say that it was written to")
	}
	return nil
}

func (s *source) changed(how string) error {
	return errors.Errorf("the file %s changed while it was sent: %s; try: a copy of it", s.path, how)
}
