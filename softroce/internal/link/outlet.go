// Outlets: the sockets that packets leave from. A queue pair with a flow label sends from a UDP port of
// its own, as on RoCE adapters. Switches with several ways (ECMP) and adapters with several receive
// queues (RSS) choose by the port, so that one queue pair's packets stay in order and others go beside.

package link

import (
	"maps"
	"net/netip"
	"syscall"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// outlet is a bound socket. A Socket has one that also receives, at packet.Port, and others that only send.
type outlet struct {
	conn  udpConn
	raw   syscall.RawConn
	local netip.AddrPort
}

const (
	// maxOutlets limits the descriptors. Further labels share the outlets.
	maxOutlets = 64

	labelBits = 20

	// The source ports of RoCEv2.
	sourceBits  = 14
	sourceFirst = 1<<16 - 1<<sourceBits
)

// SourcePort implements Link. On loopback addresses there are no other ports, because soft devices take
// packets from these only if they come from a device's port.
func (s *Socket) SourcePort(label uint32) uint16 {
	label &= 1<<labelBits - 1
	if label == 0 || s.local.Addr().IsLoopback() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	first := sourceFirst | uint16((label^label>>sourceBits)&(1<<sourceBits-1))
	if len(s.sources) == maxOutlets && s.outletOf(first) == &s.outlet {
		return s.sources[label%maxOutlets]
	}
	var err error
	const tries = 16 // another program may have a port
	for i := range uint16(tries) {
		port := first ^ i
		if s.outletOf(port) != &s.outlet {
			return port
		}
		if err = s.openOutlet(port); err == nil {
			return port
		}
	}
	if !s.without {
		s.without = true
		s.addNote("flow label %#x has no source port of its own (%v): its packets leave from port %d", label, err, packet.Port)
	}
	return 0
}

// openOutlet adds an outlet. The caller holds s.mu.
func (s *Socket) openOutlet(port uint16) error {
	o := &outlet{local: netip.AddrPortFrom(s.local.Addr(), port)}
	conn, err := listen(o.local)
	if err != nil {
		return err
	}
	_ = conn.SetReadBuffer(1) // the least that the system allows: nobody reads
	if o.conn, err = s.sendOnly(conn); err != nil {
		return err
	}
	if o.raw, err = o.conn.SyscallConn(); err != nil {
		o.conn.Close()
		return err
	}
	others := maps.Clone(*s.others.Load())
	others[port] = o
	s.others.Store(&others)
	s.sources = append(s.sources, port)
	return nil
}

// outletOf returns the outlet of a source port that SourcePort has returned.
func (s *Socket) outletOf(port uint16) *outlet {
	if o := (*s.others.Load())[port]; port != 0 && o != nil {
		return o
	}
	return &s.outlet
}

// closeOutlets closes those that only send.
func (s *Socket) closeOutlets() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, o := range *s.others.Swap(&map[uint16]*outlet{}) {
		_ = o.conn.Close()
	}
}
