//go:build rdma && rxe

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestFileDiskFull fills the disk during a transfer. There was room when the file was
// announced.
func TestFileDiskFull(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1M"); err != nil {
		t.Fatalf("mount a tmpfs on %s: %v; this test needs root", folder, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil {
			t.Errorf("unmount %s: %v", folder, err)
		}
	})
	s := serve(t, "--dir", folder)
	const size = 900 * fakeChunk
	f := mustDialSender(t, s, "name", size)
	fillUp(t, filepath.Join(folder, "other"))
	for n := range uint32(size / fakeChunk) {
		f.send(int(n)%fakeSlots, n, make([]byte, fakeChunk))
		if _, err := f.WaitSend(testkit.Context(t)); err != nil {
			break
		}
		if _, err := f.WaitRecv(testkit.Context(t)); err != nil {
			break
		}
		if err := f.QP().PostRecv(make([]verbs.RecvWR, 1)); err != nil {
			t.Fatal(err)
		}
	}
	s.event("client.failed", "error", "write to the folder "+folder+": no space left on device; try: a smaller file, or free space there")
	f.close()
	holds(t, folder, "other")

	// Now the disk is full when the file is announced.
	c := s.client(t, "--job", "file", "--file", writeFile(t, "file", 1000))
	c.fails(1, "the file has 1000B (1000 bytes), but the server's folder has room for 0B")
	if err := os.Remove(filepath.Join(folder, "other")); err != nil {
		t.Fatal(err)
	}
	s.client(t, "--job", "file", "--file", writeFile(t, "file", 1000)).succeeds()
	holds(t, folder, "file")
	s.stillServes(t)
	s.stops()
}

func fillUp(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
