package e2e

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// However the server ends in the midst of a file, nothing of it is left.
func TestFileServerEnds(t *testing.T) {
	noLeak(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			folder := t.TempDir()
			// Where there are no files without a name, a killed server leaves a hidden one.
			fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if err != nil {
				t.Fatalf("the tests need a file system with O_TMPFILE for %s: %v; try: another TMPDIR", folder, err)
			}
			unix.Close(fd)
			s := serve(t, "--dir", folder)
			f := halfSent(t, s, "name")
			s.signal(signal)
			if signal == syscall.SIGKILL {
				s.wait()
			} else {
				s.fails(130, "stopped by the signal "+signal.String())
			}
			if _, err := f.WaitRecv(timeLimit(t)); err == nil {
				t.Error("the client got a credit")
			}
			f.close()
			holds(t, folder)
		})
	}
}
