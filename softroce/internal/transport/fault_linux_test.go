package transport

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestTouch reads and writes memory that is not mapped.
func TestTouch(t *testing.T) {
	gone, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	here := make([]byte, len(gone))
	if !touch(func() { move(gone, here) }) {
		t.Fatal("memory that is mapped cannot be written")
	}
	if err := unix.Mprotect(gone, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if touch(func() { move(gone, here) }) || touch(func() { move(here, gone) }) {
		t.Error("memory that is not mapped was accessed")
	}
	defer func() {
		if recover() == nil {
			t.Error("touch hides panics that are not faults")
		}
	}()
	touch(func() { _ = here[len(gone):][0] })
}
