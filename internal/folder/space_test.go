package folder

import (
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wantCounted checks that the bytes of files that were counted are those of the folder.
func wantCounted(t *testing.T, f *Folder, path string) {
	t.Helper()
	total := int64(0)
	for _, name := range entries(t, path) {
		info, err := os.Lstat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if f.stored != total || f.pending != 0 {
		t.Errorf("%d bytes are counted with names and %d without; the folder has %d", f.stored, f.pending, total)
	}
}

// TestFilesHaveALimit writes several files at once, which together are larger than the limit.
func TestFilesHaveALimit(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		if err := os.WriteFile(filepath.Join(path, "old"), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
		f.sweep(Kept)
		f.limit = 4000
		one, two := create(t, f, strings.Repeat("1", 1000)), create(t, f, strings.Repeat("2", 1500))
		key := rand.Text()
		lost := partial(t, f, key, strings.Repeat("3", 500))
		if _, err := one.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "is full: its files have 3.906KiB of at most 3.906KiB; try: ") {
			t.Error(err)
		}
		if err := f.Admit("name", 1); err == nil || !strings.Contains(err.Error(), "has room for 0B; try: ") {
			t.Error(err)
		}
		if err := two.Close(); err != nil { // not committed
			t.Error(err)
		}
		if err := one.Commit("one"); err != nil {
			t.Error(err)
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
		lost.Keep()
		if err := lost.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Admit("name", 1501); err == nil {
			t.Error("a file of more than the room is admitted")
		}
		if err := f.Admit("name", 1500); err != nil {
			t.Error(err)
		}
		wantCounted(t, f, path)
		lost = partial(t, f, key, "4")
		if err := lost.Resume(100); err != nil {
			t.Error(err)
		}
		if f.stored != 2100 {
			t.Errorf("%d bytes, want 2100", f.stored)
		}
		if err := lost.Commit("name"); err != nil {
			t.Error(err)
		}
		if err := lost.Close(); err != nil {
			t.Error(err)
		}
		wantCounted(t, f, path)
		for _, name := range []string{"old", "one"} {
			if err := os.Remove(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
		f.tick()
		wantCounted(t, f, path)
	})
}

// TestSpaceStaysFree lets the file system run full while a file is written.
func TestSpaceStaysFree(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		free := int64(2 * checkEvery)
		f.free = func() (int64, error) { return free, nil }
		f.limit, f.reserve = math.MaxInt64/2, checkEvery
		n := create(t, f, "x")
		defer n.Close()
		if err := f.Admit("name", checkEvery+1); err == nil {
			t.Error("a file of more than the room is admitted")
		}
		free, f.allowed = checkEvery+1000, 0
		if _, err := n.Write(make([]byte, 1001)); err == nil || !strings.Contains(err.Error(), "is full: 16MiB stay free; try: ") {
			t.Error(err)
		}
		if _, err := n.Write(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		free = 2 * checkEvery
		for range 3 {
			if _, err := n.Write(make([]byte, 1000)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDefaultLimits opens a folder without a limit.
func TestDefaultLimits(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "old"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, least := range map[int64]int64{0: 1001, 5000: 5000} {
		f, err := Open(path, most)
		if err != nil {
			t.Fatal(err)
		}
		if f.limit < least || most > 0 && f.limit != most || f.stored != 1000 || f.reserve <= 0 {
			t.Errorf("%d: limit %d with %d, reserve %d", most, f.limit, f.stored, f.reserve)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSweepsAreRare checks that opening a partial file does not read the folder, and that a timer does.
func TestSweepsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		f, err := Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const files = 3000
		for i := range files {
			if err := os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		key := rand.Text()
		if n := testing.AllocsPerRun(1, func() {
			n := partial(t, f, key, "x")
			n.Keep()
			n.Close()
		}); n > files/10 {
			t.Errorf("%v allocations in a folder of %d files", n, files)
		}
		hidden := filepath.Join(path, hiddenFor(key))
		if err := os.Chtimes(hidden, time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		there := func() bool {
			_, err := os.Lstat(hidden)
			return err == nil
		}
		if time.Sleep(Kept); !there() {
			t.Error("a partial file is gone too early")
		}
		time.Sleep(2 * sweepEvery)
		synctest.Wait()
		if there() {
			t.Error("an old partial file is there")
		}
		if f.changed {
			t.Error("the next sweep will not find anything either")
		}
	})
}
