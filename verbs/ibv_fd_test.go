//go:build linux && cgo && !nolibibverbs

package verbs

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

func TestFDWaiter(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	var buf [8]byte
	w, err := newFDWaiter(fds[0], "pipe", func() syscall.Errno {
		if _, err := unix.Read(fds[0], buf[:]); err != nil {
			return err.(syscall.Errno)
		}
		return 0
	})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(testkit.Moment, func() { unix.Write(fds[1], []byte("x")) })
	if err := w.wait(); err != nil || buf[0] != 'x' {
		t.Errorf("a byte: %v", err)
	}
	if err := w.tick(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != errTick {
		t.Errorf("nothing: %v", err)
	}
	if err := w.tick(time.Hour); err != nil {
		t.Fatal(err)
	}
	y := []byte("y")
	n := testing.AllocsPerRun(100, func() {
		unix.Write(fds[1], y)
		if err := w.wait(); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("a wait allocates %v times", n)
	}
	time.AfterFunc(testkit.Moment, func() { w.close() })
	if err := w.wait(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while waiting: %v", err)
	}
	if err := w.wait(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed before: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFL, 0); err != nil {
		t.Errorf("the waiter closed a descriptor that is not its own: %v", err)
	}
	if _, err := newFDWaiter(-1, "none", nil); err == nil {
		t.Error("a bad descriptor was taken")
	}
}
