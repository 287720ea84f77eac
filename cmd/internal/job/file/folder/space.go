// How much clients may store. All their files together have a limit, and a part of the file system stays free. Both
// hold while a file is written, because several clients write at once.

package folder

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

const (
	// reserveShare is the part of the file system that stays free: a twentieth of its bytes, and of its files.
	reserveShare = 20
	// checkEvery is how many bytes are written between two looks at the free space.
	checkEvery = 16 << 20
	// sweepEvery is the time between two sweeps.
	sweepEvery = 5 * time.Minute
)

// space counts what is stored in a folder.
type space struct {
	free    func() (int64, error) // bytes of the file system that are free
	limit   int64                 // of the bytes of all files in the folder
	reserve int64                 // bytes of the file system that stay free

	mu      sync.Mutex
	stored  int64 // bytes of the files that have names; too many, if they changed during a sweep, until the next one
	pending int64 // bytes of those that have none yet
	allowed int64 // bytes that may be written before the next look at the free space
	writing int64 // of stored: bytes that are about to be written
	added   int64 // to stored since a sweep began, with those that were about to be written then
	changed bool  // the next sweep finds something
	closed  bool
}

// measure sets the limits. most is the limit of the bytes of all files; with 0 they may have half of what is free, in
// addition to what they have.
func (f *Folder) measure(most int64) error {
	var at unix.Statfs_t
	err := unix.Fstatfs(int(f.dir.Fd()), &at)
	if err == nil {
		var free int64
		free, err = f.free()
		f.reserve = int64(min(float64(at.Blocks)*float64(at.Bsize)/reserveShare, float64(free)/2))
		if f.limit = most; most == 0 {
			f.limit = f.stored + free/2
		}
	}
	return err
}

// freeSpace returns the free bytes of the folder's file system. The error says that the system is short of files.
func (f *Folder) freeSpace() (int64, error) {
	var at unix.Statfs_t
	if err := unix.Fstatfs(int(f.dir.Fd()), &at); err != nil {
		return 0, fmt.Errorf("get the free space of the folder %s: %w; try: df on that folder", f.path, err)
	}
	return f.freeOf(&at)
}

func (f *Folder) freeOf(at *unix.Statfs_t) (int64, error) {
	if float64(at.Ffree) < float64(at.Files)/reserveShare { // without a limit both are 0
		return 0, errors.Errorf("the file system of the folder %s is short of files: it has room for %d of %d (df -i); try: remove files there", f.path, at.Ffree, at.Files)
	}
	return int64(min(float64(at.Bavail)*float64(at.Bsize), math.MaxInt64/2)), nil
}

// checkRoom returns an error if a file of this size cannot be stored.
func (f *Folder) checkRoom(size int64) error {
	free, err := f.free()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	room := max(0, min(f.limit-f.stored-f.pending, free-f.reserve))
	if size <= room {
		return nil
	}
	f.changed = true // somebody may have removed files
	return errors.Errorf("the file has %s (%d bytes), but the server's folder has room for %s; try: a smaller file, free space there, or rdma_server --max-dir",
		units.BytesSize(float64(size)), size, units.BytesSize(float64(room)))
}

// take counts bytes that are about to be written to a file. The error says that there is no room for them.
func (f *Folder) take(n *File, bytes int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = true
	if used := f.stored + f.pending; used+bytes > f.limit {
		return errors.Errorf("the folder %s is full: its files have %s of at most %s; try: free space there, or rdma_server --max-dir",
			f.path, units.BytesSize(float64(used)), units.BytesSize(float64(f.limit)))
	}
	if f.allowed < bytes {
		free, err := f.free()
		if err != nil {
			return err
		}
		if f.allowed = min(free-f.reserve, checkEvery); f.allowed < bytes {
			return errors.Errorf("the file system of the folder %s is full: %s stay free; try: free space there", f.path, units.BytesSize(float64(f.reserve)))
		}
	}
	f.allowed -= bytes
	f.count(n, bytes)
	if n.hidden != "" {
		f.writing += bytes
	}
	return nil
}

// wrote counts how many of the bytes of take were written.
func (f *Folder) wrote(n *File, taken, written int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(n, written-taken)
	if n.hidden != "" {
		f.writing -= taken
	}
}

// giveBack counts bytes that a file loses by remove. It counts first, so that a sweep meanwhile rather counts
// too much.
func (f *Folder) giveBack(n *File, bytes int64, remove func() error) error {
	f.lose(n, bytes)
	err := remove()
	if err != nil {
		f.lose(n, -bytes)
	}
	return err
}

func (f *Folder) lose(n *File, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(n, -bytes)
}

// count changes the bytes of a file. The lock is held.
func (f *Folder) count(n *File, change int64) {
	if n.hidden != "" {
		f.store(change)
		return
	}
	n.size += change
	f.pending += change
}

// store changes stored. A sweep that runs may have missed a file that goes, so only more bytes change what
// it finds. Another server's files count from the next sweep on, but may go before. The lock is held.
func (f *Folder) store(change int64) {
	f.stored = max(0, f.stored+change)
	f.added += max(0, change)
	f.changed = true
}

// name counts that a file without a name has one now.
func (f *Folder) name(n *File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(n.size)
	f.pending, n.size = f.pending-n.size, 0
}

// touch makes the next tick sweep.
func (f *Folder) touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = true
}

// tick sweeps if there is something to find.
func (f *Folder) tick() {
	f.mu.Lock()
	needed := f.changed && !f.closed
	f.mu.Unlock()
	if needed {
		f.sweep(Kept)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.sweeper.Reset(sweepEvery)
	}
}

// sweep counts the bytes of all files that have names, and removes the hidden ones that were not written to for the given time:
// partial files, and those of killed servers. It may take minutes, so clients do not wait for it. What they
// write meanwhile may count twice. The next sweep, which counts again, puts that right.
func (f *Folder) sweep(unused time.Duration) {
	f.mu.Lock()
	f.added, f.changed = f.writing, false
	f.mu.Unlock()
	total, hidden, err := f.clean(unused)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil { // the next sweep may succeed
		f.changed = true
		return
	}
	f.stored = total + f.added
	f.changed = f.changed || hidden || f.added > 0
}

// clean returns the bytes of all files that have names, and whether some have a hidden one. It removes old hidden
// files. It reads few names at a time, because there may be many.
func (f *Folder) clean(unused time.Duration) (total int64, hidden bool, err error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return 0, false, err
	}
	defer dir.Close()
	before := time.Now().Add(-unused)
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			var at unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), name, &at, unix.AT_SYMLINK_NOFOLLOW) != nil || at.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			switch {
			case !isHidden(name):
				total += at.Size
			case time.Unix(at.Mtim.Unix()).Before(before):
				_ = f.root.Remove(name) // another server may have done it
			default:
				hidden = true
				if at.Nlink == 1 { // otherwise it was delivered, and counts under its other name
					total += at.Size
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return total, hidden, nil
		} else if err != nil {
			return 0, false, err
		}
	}
}

// isHidden reports whether a name is one of hiddenFor.
func isHidden(name string) bool {
	first, last, _ := strings.Cut(hiddenFor("*"), "*")
	return strings.HasPrefix(name, first) && strings.HasSuffix(name, last)
}
