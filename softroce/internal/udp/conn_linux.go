// Conn: a UDP socket that waits by its waiters.

package udp

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Conn is a UDP socket and its own [syscall.RawConn]. Several goroutines may use it at once; their
// reads take turns.
type Conn struct {
	mu     sync.RWMutex // held for reading during system calls, so that Close cannot free the number
	fd     int
	scope  uint32
	closed atomic.Bool
	in     *waiter // nil if Read does not wait

	waiting sync.Mutex
	room    *waiter // nil before the first write that finds no room; guarded by waiting
}

// New returns a Conn with a duplicate of the socket's descriptor. scope is the index of its
// interface, for link-local addresses.
func New(fd int, scope uint32) (*Conn, error) {
	c, err := NewWithoutWait(fd, scope)
	if err != nil {
		return nil, err
	}
	if c.in, err = newWaiter(c.fd, unix.EPOLLIN); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// NewWithoutWait returns a Conn whose reads do not wait: they return os.ErrDeadlineExceeded if no
// packet has arrived.
func NewWithoutWait(fd int, scope uint32) (*Conn, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.WithMessage(err, "duplicating the socket")
	}
	return &Conn{fd: dup, scope: scope}, nil
}

// FD returns the descriptor, which is valid until Close.
func (c *Conn) FD() int { return c.fd }

// Read calls f until it returns true, and waits for packets in between.
func (c *Conn) Read(f func(fd uintptr) bool) error {
	if c.in != nil {
		return c.end(c.in.do(f))
	}
	return c.use(func(fd uintptr) error {
		if !f(fd) {
			return os.ErrDeadlineExceeded
		}
		return nil
	})
}

// TryRead calls f once and returns what it returned. It does not wait for packets.
func (c *Conn) TryRead(f func(fd uintptr) bool) (done bool, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return false, net.ErrClosed
	}
	return f(uintptr(c.fd)), nil
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
	return c.use(func(fd uintptr) error {
		f(fd)
		return nil
	})
}

func (c *Conn) use(f func(fd uintptr) error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	return f(uintptr(c.fd))
}

// ReadMsgUDPAddrPort reads one datagram.
func (c *Conn) ReadMsgUDPAddrPort(data, control []byte) (n, controlN, flags int, from netip.AddrPort, err error) {
	readErr := c.Read(func(fd uintptr) bool {
		var name unix.Sockaddr
		n, controlN, flags, name, err = unix.Recvmsg(int(fd), data, control, 0)
		from = addrPortOf(name)
		return !again(err)
	})
	if readErr != nil {
		err = readErr
	}
	return n, controlN, flags, from, err
}

// WriteMsgUDPAddrPort writes one datagram.
func (c *Conn) WriteMsgUDPAddrPort(data, control []byte, to netip.AddrPort) (n, controlN int, err error) {
	writeErr := c.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgN(int(fd), data, control, c.name(to), 0)
		return !again(err)
	})
	if writeErr != nil {
		err = writeErr
	}
	return n, len(control), err
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

func (c *Conn) name(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16(), ZoneId: c.scope}
}

func addrPortOf(name unix.Sockaddr) netip.AddrPort {
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// SetReadDeadline sets the time at which waiting reads return os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.in == nil {
		return nil
	}
	return c.in.file.SetReadDeadline(t)
}

// SyscallConn returns c.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c, nil }

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
