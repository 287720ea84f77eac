//go:build !rdma && linux

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil && strings.HasSuffix(strings.TrimSpace(string(users)), " 1") {
		// Root of a user namespace that has nobody else. In a namespace below it the program is not root.
		one := []syscall.SysProcIDMap{{ContainerID: ordinary, Size: 1}}
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: one, GidMappings: one}
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

// TestFileFolderNotWritable runs a server that may not write to its folder. Root ignores permissions, so the
// server runs as an ordinary user.
func TestFileFolderNotWritable(t *testing.T) {
	noLeak(t)
	place := reachable(t)
	program, err := os.ReadFile(filepath.Join(binaries, "rdma_server"))
	if err != nil {
		t.Fatal(err)
	}
	server, folder := writeIn(t, place, "rdma_server", program), filepath.Join(place, "closed")
	if err := os.Mkdir(folder, 0o555); err != nil {
		t.Fatal(err)
	}
	startAs(t, asOrdinary(), "rdma_server", []string{server, "--dir", folder, device, "0"}).fails(1, "--dir: create a file in the folder "+folder, "permission denied", "try: a folder that the server may write to")
}
