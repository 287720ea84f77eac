//go:build !rdma && unix

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// ordinary is the user of a program that must not be root, if the tests run as root.
const ordinary = 65534

// asOrdinary returns the attributes of a program that must not be root. Any user must be able to reach its
// file and its folder.
func asOrdinary() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
}

// reachable makes a folder that any user can reach. TMPDIR need not be one.
func reachable(t *testing.T) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		if base, err := filepath.EvalSymlinks(base); err != nil || !forAll(base) {
			continue
		}
		folder, err := os.MkdirTemp(base, "rawverbs-e2e")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(folder) })
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	t.Fatal("no folder for temporary files that all users can reach; try: TMPDIR=/tmp")
	return ""
}

// forAll reports whether any user may search a folder and all folders above it.
func forAll(folder string) bool {
	const search = fs.FileMode(0o001)
	for {
		info, err := os.Stat(folder)
		if err != nil || info.Mode()&search == 0 {
			return false
		}
		above := filepath.Dir(folder)
		if above == folder {
			return true
		}
		folder = above
	}
}
