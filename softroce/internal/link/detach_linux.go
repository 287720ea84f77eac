// A socket without the runtime's poller, for threads of C that wait for packets themselves.

package link

import (
	"net"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/udp"
)

// Detach takes the socket off the runtime's poller, so that packets wake no thread of Go. From
// then on Receive does not wait: it returns ErrInterrupted if no packet has arrived. Detach returns
// the descriptor, which is valid until Close and becomes readable when packets arrive. No other
// method may run meanwhile.
func (s *Socket) Detach() (fd int, err error) {
	if err := s.replace(udp.NewWithoutWait); err != nil {
		return -1, err
	}
	return s.conn.(*udp.Conn).FD(), nil
}

// wakeLess takes the socket off the runtime's poller, so that a packet wakes a thread of Go only if
// a goroutine waits for it.
func (s *Socket) wakeLess() error { return s.replace(udp.New) }

// sendOnly returns a connection with a duplicate of c's descriptor that is not on the runtime's poller
// either, and closes c.
func (s *Socket) sendOnly(c *net.UDPConn) (udpConn, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var only *udp.Conn
	err = onFD(raw, func(fd int) (err error) {
		_ = groupInterface(fd, s.local.Addr().Is6(), s.scope) // s has noted the error
		only, err = udp.NewWithoutWait(fd, s.scope)
		return err
	})
	return only, err
}

// replace replaces the connection by one with a duplicate of its descriptor.
func (s *Socket) replace(by func(fd int, scope uint32) (*udp.Conn, error)) error {
	var c *udp.Conn
	if err := onFD(s.raw, func(old int) (err error) {
		c, err = by(old, s.scope)
		return err
	}); err != nil {
		return errors.WithMessage(err, "softroce/link")
	}
	before := s.conn
	s.conn, s.raw = c, c
	return errors.WithMessage(before.Close(), "softroce/link")
}
