// This file is what both kinds of link have in common.

package link

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Link sends packets from one local address, and receives those that come
// there. Its methods may be called by several goroutines at once, as long as
// they do not share an Egress or an Ingress.
type Link interface {
	// Addr is the local address, IPv4 addresses as 4 bytes. The port is
	// packet.Port.
	Addr() netip.Addr

	// MTU is the largest path MTU that the local interface allows, in bytes of
	// payload: 256, 512, 1024, 2048 or 4096.
	MTU() int

	// Reach says whether there is a way to an address of the link's family; the
	// error is the system's. Nothing is sent.
	Reach(addr netip.Addr) error

	// Send seals and sends all packets of e, in order, and empties e. It waits
	// where the system has no room. It returns net.ErrClosed, or a *SendError if
	// some packets could not be sent; all the others were. A packet that gets
	// lost later is no error.
	Send(e *Egress) error

	// Receive waits until at least one sound packet came, and puts what came
	// into in.Packets, in order; what was there before is gone. The error is
	// net.ErrClosed, ErrInterrupted, or what makes the link useless.
	Receive(in *Ingress) error

	// Interrupt makes the Receive that waits return ErrInterrupted; if none does,
	// the next one. Several Interrupts may make one.
	Interrupt()

	// SetTap sets a function to see every packet, nil for none.
	SetTap(Tap)

	// Counters counts since the link was opened.
	Counters() Counters

	// Status tells how the link works now.
	Status() Status

	// Close ends waiting calls with net.ErrClosed. Closing twice is fine.
	Close() error
}

// ErrInterrupted is what Receive returns after Interrupt.
var ErrInterrupted = errors.New("softroce/link: interrupted")

// Destination is where packets go: port packet.Port of Addr.
type Destination struct {
	Addr netip.Addr // of the link's family
	TOS  uint8      // type of service or traffic class
	TTL  uint8      // time to live or hop limit, 0 for what is usual
}

// SendError says that packets could not be sent: no route, too long for the
// interface, a firewall.
type SendError struct {
	To      netip.Addr // of the first of them
	Packets int        // how many, to whatever address
	Err     error      // of the first of them; errors.Is finds its errno
}

func (e *SendError) Error() string {
	return fmt.Sprintf("softroce/link: %d packets not sent, the first to %v: %v%s",
		e.Packets, netip.AddrPortFrom(e.To, packet.Port), e.Err, sendHint(e.Err))
}

// Unwrap returns Err.
func (e *SendError) Unwrap() error { return e.Err }

// lost adds packets that could not be sent to *report, nil at first.
func lost(report **SendError, to netip.Addr, packets int, err error) {
	if *report == nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			err = errno
		}
		*report = &SendError{To: to, Err: err}
	}
	(*report).Packets += packets
}
