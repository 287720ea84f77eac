// Conn: a UDP socket that waits by its waiters.

package udp

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a UDP socket and a [syscall.RawConn]. Several goroutines may use it at once; their
// reads take turns.
type Conn struct {
	mu     sync.RWMutex // held for reading during system calls, so that Close cannot free the number
	fd     int
	closed atomic.Bool
	in     *waiter // nil if Read does not wait

	waiting sync.Mutex
	room    *waiter // nil before the first write that finds no room; guarded by waiting
}

// New returns a Conn that owns the socket's descriptor. If it fails, it closes the descriptor. Reads of a Conn that does not
// wait return os.ErrDeadlineExceeded if no packet has arrived.
func New(fd int, waits bool) (*Conn, error) {
	c := &Conn{fd: fd}
	if waits {
		var err error
		if c.in, err = newWaiter(fd, unix.EPOLLIN); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Detach makes reads wait no more, so that packets wake no thread of Go. It returns the descriptor, which is valid until
// Close. No other method may run meanwhile.
func (c *Conn) Detach() (fd int) {
	if c.in != nil {
		c.in.file.Close()
		c.in = nil
	}
	return c.fd
}

// Read calls f until it returns true, and waits for packets in between.
func (c *Conn) Read(f func(fd uintptr) bool) error {
	if c.in != nil {
		return c.end(c.in.do(f))
	}
	done, err := c.TryRead(f)
	if err == nil && !done {
		err = os.ErrDeadlineExceeded
	}
	return err
}

// TryRead calls f once and returns what it returned. It does not wait for packets.
func (c *Conn) TryRead(f func(fd uintptr) bool) (done bool, err error) {
	err = c.Control(func(fd uintptr) { done = f(fd) })
	if done && c.in != nil {
		c.in.rest()
	}
	return done, err
}

// Write calls f until it returns true, and waits for room in between.
func (c *Conn) Write(f func(fd uintptr) bool) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	if f(uintptr(c.fd)) {
		return nil
	}
	room, err := c.roomWaiter()
	if err != nil {
		return err
	}
	defer room.rest() // packets that leave are no news
	return c.end(room.do(f))
}

// roomWaiter returns the waiter for room. Most sockets never need it.
func (c *Conn) roomWaiter() (w *waiter, err error) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if c.room == nil && !c.closed.Load() {
		c.room, err = newWaiter(c.fd, unix.EPOLLOUT)
	}
	if c.room == nil && err == nil {
		err = net.ErrClosed
	}
	return c.room, err
}

// end returns net.ErrClosed in place of the error of a wait that Close ended.
func (c *Conn) end(err error) error {
	if err != nil && c.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// Control calls f.
func (c *Conn) Control(f func(fd uintptr)) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	f(uintptr(c.fd))
	return nil
}

// SetReadDeadline sets the time at which waiting reads return os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.in == nil {
		return nil
	}
	return c.in.file.SetReadDeadline(t)
}

// Close ends waiting calls, which return net.ErrClosed. It waits until no system call uses the
// socket.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.waiting.Lock()
	for _, w := range []*waiter{c.in, c.room} {
		if w != nil {
			w.file.Close()
		}
	}
	c.waiting.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return unix.Close(c.fd)
}
