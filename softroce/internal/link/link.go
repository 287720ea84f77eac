// The Link interface, its errors and its tap.

package link

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Link sends packets from one local address and receives the packets sent to it. Several
// goroutines may call its methods at once, if each uses its own Egress or Ingress.
type Link interface {
	// Addr returns the local address; IPv4 addresses have 4 bytes. The port is
	// packet.Port.
	Addr() netip.Addr

	// MTU returns the largest path MTU that the local interface allows, in bytes of
	// payload: 256, 512, 1024, 2048 or 4096.
	MTU() int

	// Reach returns nil if the system has a route to addr, and the system's error
	// otherwise. addr must be of the link's family. Reach sends nothing.
	Reach(addr netip.Addr) error

	// SourcePort returns the Destination.Source of packets with a flow label, as RoCE adapters derive
	// the UDP source port from it. It is 0 without a label, and if the link has no such ports.
	SourcePort(label uint32) uint16

	// Join opens a link that receives what is sent to a multicast group on this link's
	// network interface. That link does not send. Closing it leaves the group.
	Join(group netip.Addr) (Link, error)

	// Send writes the ICRCs and sends the packets of e, those from one source port in order. It does not
	// wait: packets from a source port whose socket has no room stay in e. It returns a *SendError if the
	// system refused some packets, which do not stay in e. After Close it empties e and returns
	// net.ErrClosed. Send does not report packets that the network loses.
	Send(e *Egress) error

	// AwaitRoom waits until the socket of a source port has room again, after Send found none. The error
	// is net.ErrClosed, or another one if the system cannot wait.
	AwaitRoom(source uint16) error

	// Receive waits until at least one good packet arrives. It replaces in.Packets by
	// the packets that arrived, in order. The error is net.ErrClosed, ErrInterrupted,
	// or an error after which the link cannot be used.
	Receive(in *Ingress) error

	// Interrupt makes the waiting Receive return ErrInterrupted, or the next Receive if
	// no Receive waits. Several Interrupts may interrupt only once.
	Interrupt()

	// SetTap sets a function that is called for every packet; nil removes it.
	SetTap(Tap)

	// Counters returns the packet counts since the link was opened.
	Counters() Counters

	// Status returns the modes and limits of the link.
	Status() Status

	// Close closes the link; waiting calls return net.ErrClosed. Later calls do nothing
	// and return nil.
	Close() error
}

// ErrInterrupted is the error of a Receive that Interrupt ended.
var ErrInterrupted = errors.New("softroce/link: interrupted")

// Destination is the destination of packets: port packet.Port of Addr.
type Destination struct {
	Addr netip.Addr // an address of the link's family
	TOS  uint8      // type of service or traffic class
	TTL  uint8      // time to live or hop limit; 0: the system's default

	Source uint16 // UDP source port that SourcePort returned; 0: packet.Port
}

// SendError reports packets that the system refused to send: it had no route, they were
// too long for the interface, or a firewall rejected them.
type SendError struct {
	To      netip.Addr // destination of the first refused packet
	Packets int        // number of refused packets, to all destinations
	Err     error      // errno of the first refused packet
}

func (e *SendError) Error() string {
	return fmt.Sprintf("softroce/link: %d packets not sent; the first, to %v: %v%s",
		e.Packets, netip.AddrPortFrom(e.To, packet.Port), e.Err, sendHint(e.Err))
}

// Unwrap returns Err.
func (e *SendError) Unwrap() error { return e.Err }

// lost adds packets that the system refused to *report, which is nil at first.
func lost(report **SendError, to netip.Addr, packets int, err error) {
	if *report == nil {
		*report = &SendError{To: to, Err: cause(err)}
	}
	(*report).Packets += packets
}

// Tap is called for each packet before it is sent, and for each received packet with a
// correct ICRC. f has the fields of the IP header. raw has the bytes from BTH to ICRC and
// is valid during the call. Send and Receive call the Tap, perhaps several at once. A Tap
// must not call the link. If the kernel refuses a packet and the link sends it again, the
// Tap is called again.
type Tap func(sent bool, f packet.Frame, raw []byte)

// tap is the tap of a link.
type tap struct{ p atomic.Pointer[Tap] }

// load returns the tap, or nil.
func (t *tap) load() Tap {
	if p := t.p.Load(); p != nil {
		return *p
	}
	return nil
}
