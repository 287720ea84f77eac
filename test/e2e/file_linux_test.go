package e2e

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileServerEnds checks that nothing of a file is left, however the server ends during
// the transfer.
func TestFileServerEnds(t *testing.T) {
	noLeak(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			folder := t.TempDir()
			// On a file system without unnamed files, a killed server leaves a hidden file.
			fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if err != nil {
				t.Fatalf("the tests need a file system with O_TMPFILE for %s: %v; try: another TMPDIR", folder, err)
			}
			unix.Close(fd)
			s := serve(t, "--dir", folder)
			f := partialSender(t, s, "name")
			s.signal(signal)
			if signal == syscall.SIGKILL {
				s.wait()
			} else {
				s.fails(130, "stopped by the signal "+signal.String())
			}
			if _, err := f.WaitRecv(timeLimit(t)); err == nil {
				t.Error("the client received a credit")
			}
			f.close()
			holds(t, folder)
		})
	}
}
