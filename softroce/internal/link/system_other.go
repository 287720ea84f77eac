//go:build !linux

// Systems without batched calls: only mode Plain.

package link

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// systemCalls are the calls that tests replace; this system has none.
type systemCalls struct{}

var realCalls systemCalls

// udpConn is a UDP socket.
type udpConn = *net.UDPConn

// connOf returns c.
func connOf(c *net.UDPConn, _ bool) (udpConn, error) { return c, nil }

// options sets the receive buffer and returns Plain, the only mode.
func (s *Socket) options(cfg Config) (send, receive Mode, err error) {
	// Some systems refuse a size that is too large, instead of granting less.
	for size := cfg.ReceiveBuffer; ; size /= 2 {
		err = s.conn.SetReadBuffer(size)
		if err == nil {
			if size != cfg.ReceiveBuffer {
				s.note("the system grants a receive buffer of only %d KiB", size>>10)
			}
			s.status.ReceiveBuffer = size
			return Plain, Plain, nil
		}
		if size < packet.MaxPacket {
			return 0, 0, errors.WithMessage(err, "softroce/link")
		}
	}
}

// overflow returns 0: the system does not report drops.
func (s *Socket) overflow() uint64 { return 0 }

// send sends bursts of e from o, one datagram per call of package net. On this system a socket always has room. send adds
// refused packets to *report. The error is net.ErrClosed.
func (s *Socket) send(o *outlet, e *Egress, bursts []burst, report **SendError) error {
	tap := s.tap.load()
	sent, bytes, calls := 0, 0, 0
	for i := range bursts {
		b := &bursts[i]
		if err := e.seal(b, o.local, sealedAlone, tap); err != nil {
			lost(report, b.to.Addr, b.left(), err)
			b.done = b.packets
		}
		for ; b.left() > 0; b.done++ {
			calls++
			n, _, err := o.conn.WriteMsgUDPAddrPort(b.packet(b.done), nil, netip.AddrPortFrom(b.to.Addr, packet.Port))
			if errors.Is(err, net.ErrClosed) {
				return net.ErrClosed
			}
			if err != nil {
				lost(report, b.to.Addr, 1, err)
				continue
			}
			sent++
			bytes += n
		}
	}
	s.counters.sent(uint64(sent), uint64(bytes), 0, uint64(calls))
	return nil
}

// Join implements Link: EOPNOTSUPP.
func (s *Socket) Join(group netip.Addr) (Link, error) {
	return nil, &AddrError{Addr: group, Err: syscall.EOPNOTSUPP, Hint: "Linux: soft devices have no multicast on other systems"}
}

func (s *Socket) reachGroup(netip.Addr) error { return syscall.EOPNOTSUPP }

// AwaitRoom implements Link.
func (s *Socket) AwaitRoom(uint16) error { return nil }

// sendOnly makes the receive buffer as small as the system allows: nobody reads.
func (s *Socket) sendOnly(c udpConn) { _ = c.SetReadBuffer(1) }

// receive receives one datagram. The buffer is one byte longer than the longest packet, so that a longer datagram is noticed.
func (s *Socket) receive(in *Ingress, t *Counters) error {
	if in.sys.data == nil {
		in.sys.data = make([]byte, packet.MaxPacket+1)
	}
	n, src, err := s.conn.ReadFromUDPAddrPort(in.sys.data)
	if err != nil {
		return closed(err)
	}
	if n > packet.MaxPacket {
		t[DropTruncated]++
		return nil
	}
	in.take(datagram{data: in.sys.data[:n], src: src}, s.local, s.tap.load(), t)
	return nil
}

// Trying returns nil: on this system links must wait.
func Trying(Link) func(in *Ingress) error { return nil }

// Split returns nil: on this system an address has one socket.
func Split(Link, int) []Link { return nil }

// Interrupted returns false: on this system nobody polls.
func Interrupted(Link) bool { return false }

// Unread returns false: on this system it is not known.
func Unread(Link) bool { return false }

// Yield does nothing: on this system nobody polls.
func Yield() {}

// sendScratch is the memory that an Egress keeps for sending: none on this system.
type sendScratch struct{}

// receiveScratch is the memory that an Ingress keeps for receiving.
type receiveScratch struct{ data []byte }
