package udp

import (
	"cmp"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// open returns a Conn on a free port of loopback, and its address.
func open(t *testing.T, waits bool) (*Conn, unix.SockaddrInet4) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(fd, waits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return c, unix.SockaddrInet4{Port: name.(*unix.SockaddrInet4).Port, Addr: name.(*unix.SockaddrInet4).Addr}
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

func write(c *Conn, to unix.SockaddrInet4, b byte) error {
	var err error
	writeErr := c.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), []byte{b}, 0, &to)
		return !again(err)
	})
	return cmp.Or(writeErr, err)
}

func send(t *testing.T, c *Conn, to unix.SockaddrInet4, b byte) {
	t.Helper()
	if err := write(c, to, b); err != nil {
		t.Fatal(err)
	}
}

// receive returns the next datagram's byte.
func receive(c *Conn) (byte, error) { return receiveAfter(c, nil) }

// receiveAfter is receive that finds nothing at first, and then calls late, if it is not nil.
func receiveAfter(c *Conn, late func()) (byte, error) {
	var data [1]byte
	var err error
	readErr := c.Read(func(fd uintptr) bool {
		if late != nil {
			late()
			late = nil
			return false
		}
		_, err = unix.Read(int(fd), data[:])
		return !again(err)
	})
	return data[0], cmp.Or(readErr, err)
}

// TestWaiterTurnsOff checks that a read gets a packet that comes after it found nothing and before it waits, and leaves the
// waiter on; that a read without a wait and an interrupt turn it off; and that the next read waits for a packet again.
func TestWaiterTurnsOff(t *testing.T) {
	a, _ := open(t, true)
	b, to := open(t, true)
	for i := range byte(3) {
		for range 2 { // the second time it is on from the beginning
			if got, err := receiveAfter(b, func() { send(t, a, to, i) }); got != i || err != nil || !b.in.on {
				t.Fatal(got, err, "want", i, "on:", b.in.on)
			}
		}
		send(t, a, to, i+10)
		if got, err := receive(b); got != i+10 || err != nil || b.in.on {
			t.Fatal("without a wait:", got, err, "want", i+10, "still on:", b.in.on)
		}
		interrupt := time.AfterFunc(testkit.Moment, func() { _ = b.SetReadDeadline(time.Unix(1, 0)) })
		if _, err := receive(b); !errors.Is(err, os.ErrDeadlineExceeded) || b.in.on {
			t.Fatal(err, "still on:", b.in.on)
		}
		interrupt.Stop()
		if err := b.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoom checks that a write that finds no room is repeated when there is room.
func TestRoom(t *testing.T) {
	a, _ := open(t, true)
	for range 2 {
		tries := 0
		if err := a.Write(func(uintptr) bool { tries++; return tries > 2 }); err != nil || tries != 3 {
			t.Error(tries, err)
		}
		if a.room.on {
			t.Fatal("the waiter for room is still on")
		}
	}
}

func TestDeadlineAndClose(t *testing.T) {
	c, _ := open(t, true)
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := receive(c); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			if _, err := receive(c); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
	time.Sleep(testkit.Moment) // probably until the reader waits
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	readers.Wait()
	if err := write(c, unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}, 1); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestWithoutWait(t *testing.T) {
	a, _ := open(t, false)
	b, to := open(t, false)
	if _, err := receive(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	send(t, a, to, 9)
	if got, err := receive(b); got != 9 || err != nil {
		t.Error(got, err)
	}
}

// TestDetach checks that reads do not wait after Detach, and that the descriptor stays.
func TestDetach(t *testing.T) {
	a, _ := open(t, true)
	b, to := open(t, true)
	time.AfterFunc(testkit.Moment, func() { send(t, a, to, 8) })
	if got, err := receive(b); got != 8 || err != nil {
		t.Error(got, err)
	}
	if fd := b.Detach(); fd != b.fd {
		t.Errorf("descriptor %d, want %d", fd, b.fd)
	}
	if _, err := receive(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	send(t, a, to, 9)
	if got, err := receive(b); got != 9 || err != nil {
		t.Error(got, err)
	}
}

// TestTryRead checks that a read that does not wait returns at once, and does not keep a later read from waiting.
func TestTryRead(t *testing.T) {
	a, _ := open(t, true)
	b, to := open(t, true)
	var data [1]byte
	try := func() (bool, error) {
		return b.TryRead(func(fd uintptr) bool {
			_, err := syscall.Read(int(fd), data[:])
			return !again(err)
		})
	}
	for range 3 {
		if done, err := try(); done || err != nil {
			t.Fatal("without a packet:", done, err)
		}
		if got, err := receiveAfter(b, func() { send(t, a, to, 7) }); got != 7 || err != nil || !b.in.on {
			t.Fatal("waiting:", got, err, "on:", b.in.on)
		}
		for i := range byte(4) {
			send(t, a, to, i)
			if done, err := try(); !done || err != nil || data[0] != i || b.in.on {
				t.Fatal(done, err, data[0], "want", i, "still on:", b.in.on)
			}
		}
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := receive(b)
		waiting <- err
	}()
	time.Sleep(testkit.Moment) // probably until the reader waits
	if done, err := try(); done || err != nil {
		t.Error("beside a read that waits:", done, err)
	}
	if done, err := b.TryRead(func(uintptr) bool { return true }); !done || err != nil {
		t.Error("a read that finds something beside one that waits:", done, err)
	}
	send(t, a, to, 8)
	if err := testkit.Receive(t, waiting, "end of a read"); err != nil {
		t.Error(err)
	}
	b.Close()
	if done, err := try(); done || !errors.Is(err, net.ErrClosed) {
		t.Error("after Close:", done, err)
	}
}

func TestNoAllocations(t *testing.T) {
	c, _ := open(t, true)
	done := func(uintptr) bool { return true }
	if n := testing.AllocsPerRun(100, func() { _ = c.Read(done); _ = c.Write(done); _, _ = c.TryRead(done) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
