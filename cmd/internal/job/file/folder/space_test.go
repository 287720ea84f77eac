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

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// bytesIn returns the bytes of a folder's files.
func bytesIn(t *testing.T, path string) (total int64) {
	t.Helper()
	for _, name := range entries(t, path) {
		info, err := os.Lstat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}

// wantCounted checks that the bytes of files that were counted are those of the folder.
func wantCounted(t *testing.T, f *Folder, path string) {
	t.Helper()
	total := bytesIn(t, path)
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

// TestWritesDoNotWaitForASweep writes, shortens and names files while a sweep reads the folder. They may count twice
// until the next sweep, and never too little.
func TestWritesDoNotWaitForASweep(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		named, lost := create(t, f, "12345"), partial(t, f, rand.Text(), "1234567")
		least := func() {
			t.Helper()
			f.mu.Lock()
			stored := f.stored + f.pending
			f.mu.Unlock()
			total := bytesIn(t, path)
			if stored < total {
				t.Errorf("%d bytes are counted; the folder has %d", stored, total)
			}
		}
		if err := f.take(lost, 3); err != nil { // a write begins
			t.Fatal(err)
		}
		f.sweep(Kept)
		if n, err := lost.file.WriteString("890"); n != 3 || err != nil {
			t.Fatal(err)
		}
		f.wrote(lost, 3, 3)
		least()
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for range 100 {
				f.sweep(Kept)
			}
		}()
		for range 20 {
			if _, err := lost.Write([]byte("more")); err != nil {
				t.Error(err)
			}
			create(t, f, "x").Close()
			least()
		}
		if err := lost.Resume(7); err != nil {
			t.Error(err)
		}
		if err := named.Commit("name"); err != nil {
			t.Error(err)
		}
		named.Close()
		least()
		testkit.Receive(t, ended, "end of the sweeps")
		lost.Keep()
		lost.Close()
		f.tick()
		f.tick()
		wantCounted(t, f, path)
	})
}

// TestFilesOfAnotherServer shortens a partial file that this server has not counted.
func TestFilesOfAnotherServer(t *testing.T) {
	both(t, func(t *testing.T, f *Folder, path string) {
		key := rand.Text()
		if err := os.WriteFile(filepath.Join(path, hiddenFor(key)), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := f.Partial(key, "name")
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Resume(100); err != nil {
			t.Error(err)
		}
		if f.stored < 0 {
			t.Errorf("%d bytes are counted", f.stored)
		}
		n.Keep()
		n.Close()
		f.tick()
		wantCounted(t, f, path)
	})
}

// TestNamingDuringASweep names a file that a sweep has found already. It counts twice until the next sweep.
func TestNamingDuringASweep(t *testing.T) {
	f, err := Open(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.unnamed {
		t.Skip("the file system has no files without a name")
	}
	n := create(t, f, "12345")
	if err := n.linkUnnamed("name"); err != nil {
		t.Fatal(err)
	}
	f.tick()
	f.name(n)
	f.tick()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	wantCounted(t, f, f.path)
}

// TestFewFilesLeft checks that the error of a file system without room for more files says so.
func TestFewFilesLeft(t *testing.T) {
	f := &Folder{path: "folder"}
	if _, err := f.freeOf(&unix.Statfs_t{Files: 1000, Ffree: 49, Bavail: 1000, Bsize: 4096}); err == nil || !strings.Contains(err.Error(), "room for 49 of 1000 (df -i)") {
		t.Error(err)
	}
	for _, at := range []unix.Statfs_t{{}, {Files: 1000, Ffree: 50}} {
		at.Bavail, at.Bsize = 1000, 4096
		if free, err := f.freeOf(&at); free != 4096000 || err != nil {
			t.Errorf("%d, %v", free, err)
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
