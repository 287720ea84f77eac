// A socket without the runtime's poller, for threads of C that wait for packets themselves.

package link

import (
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

// replace replaces the connection by one with a duplicate of its descriptor.
func (s *Socket) replace(by func(fd int, scope uint32) (*udp.Conn, error)) error {
	var c *udp.Conn
	var err error
	if controlErr := s.raw.Control(func(old uintptr) { c, err = by(int(old), s.scope) }); controlErr != nil {
		err = controlErr
	}
	if err != nil {
		return errors.WithMessage(err, "softroce/link")
	}
	before := s.conn
	s.conn, s.raw = c, c
	return errors.WithMessage(before.Close(), "softroce/link")
}
