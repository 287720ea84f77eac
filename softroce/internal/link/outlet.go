// Outlets: the sockets that packets leave from. A queue pair with a flow label sends from a UDP port of
// its own, as on RoCE adapters. Switches with several paths (ECMP) and adapters with several receive
// queues (RSS) choose among them by the port. So the packets of a queue pair stay in order, and other
// queue pairs use other paths and queues.

package link

import (
	"fmt"
	"maps"
	"net/netip"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// outlet is a bound socket. A Socket has one that also receives, at packet.Port, and others that only send.
type outlet struct {
	conn  udpConn // of this system
	local netip.AddrPort
}

const (
	// maxOutlets limits the descriptors. Further labels share the outlets.
	maxOutlets = 64

	// neighbours is how many ports are tried for a label. Other programs may use some of them.
	neighbours = 16

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
	var err error
	for i := range uint16(neighbours) {
		port := first ^ i
		if s.outletOf(port) != &s.outlet {
			return port
		}
		if len(s.sources) == maxOutlets {
			continue // the label may have got a neighbour before
		}
		if err = s.openOutlet(port); err == nil {
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if len(s.sources) == maxOutlets {
		return s.sources[label%maxOutlets]
	}
	if !s.without {
		s.without = true
		s.note("%s", withoutSource(s.local.Addr(), label, first, err))
	}
	return 0
}

// withoutSource says why a flow label has no source port of its own.
func withoutSource(addr netip.Addr, label uint32, first uint16, err error) string {
	ports, hint := fmt.Sprintf("port %d", first), ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		ports = fmt.Sprintf("ports %d to %d", first&^(neighbours-1), first|(neighbours-1))
		hint = "; try: another flow label, because other programs use these ports"
	case errors.Is(err, syscall.EMFILE):
		hint = "; try: a higher ulimit -n"
	}
	return fmt.Sprintf("packets with flow label %#x leave from port %d like those without: UDP %s of %v: %v%s",
		label, packet.Port, ports, addr, err, hint)
}

// openOutlet adds an outlet. The caller holds s.mu.
func (s *Socket) openOutlet(port uint16) error {
	local := netip.AddrPortFrom(s.local.Addr(), port)
	conn, err := listen(local, s.predictable, false)
	if err != nil {
		return err
	}
	s.sendOnly(conn)
	others := maps.Clone(*s.others.Load())
	others[port] = &outlet{conn, local}
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
