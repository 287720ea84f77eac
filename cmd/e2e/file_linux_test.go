package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestFileServerEnds checks that nothing of a file is left, however the server ends during
// the transfer. On a file system without unnamed files (O_TMPFILE) a killed server leaves one hidden file.
func TestFileServerEnds(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			folder := t.TempDir()
			fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			unnamed := err == nil
			if unnamed {
				unix.Close(fd)
			}
			s := serve(t, "--dir", folder)
			f := partialSender(t, s, "name")
			s.signal(signal)
			if signal == syscall.SIGKILL {
				s.wait()
			} else {
				s.fails(130, "stopped by "+unix.SignalName(signal))
			}
			if _, err := f.WaitRecv(testkit.Context(t)); err == nil {
				t.Error("the client received a credit")
			}
			f.close()
			if signal == syscall.SIGKILL && !unnamed { // a killed server leaves a hidden file
				left := hiddenFiles(t, folder)
				if len(left) > 1 {
					t.Errorf("the server left %q, want at most one file", left)
				}
				for _, hidden := range left {
					if err := os.Remove(hidden); err != nil {
						t.Fatal(err)
					}
				}
			}
			holds(t, folder)
		})
	}
}

// hiddenFiles returns the paths of the hidden files in a folder, which are those of rdma_server.
func hiddenFiles(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, ".rdma_server-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
