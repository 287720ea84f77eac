// Mode Plain: one datagram per call through package net. It works on every system.

package link

import (
	"net"
	"net/netip"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// sendEach sends the packets of bursts from o one by one. It adds refused packets to *report. The
// error is net.ErrClosed.
func (s *Socket) sendEach(o *outlet, e *Egress, bursts []burst, report **SendError) error {
	for i := range bursts {
		if _, err := s.sendPlain(o, e, &bursts[i], report); err != nil {
			return err
		}
	}
	return nil
}

// sendPlain sends the packets of b one by one and returns the number sent. It adds
// refused packets to *report. The error is net.ErrClosed.
func (s *Socket) sendPlain(o *outlet, e *Egress, b *burst, report **SendError) (int, error) {
	if err := e.seal(b, o.local, false, loadTap(&s.tap)); err != nil {
		lost(report, b.to.Addr, b.packets, err)
		return 0, nil
	}
	sent, bytes := 0, 0
	to := netip.AddrPortFrom(b.to.Addr, packet.Port)
	control := e.sys.plainControl(b.to)
	for i := range b.packets {
		n, _, err := o.conn.WriteMsgUDPAddrPort(b.packet(i), control, to)
		if errors.Is(err, net.ErrClosed) {
			return sent, net.ErrClosed
		}
		if err != nil {
			lost(report, b.to.Addr, 1, err)
			continue
		}
		sent++
		bytes += n
	}
	s.counters.sent(uint64(sent), uint64(bytes), 0, uint64(b.packets))
	return sent, nil
}

// receivePlain receives one datagram.
func (s *Socket) receivePlain(in *Ingress, t *tally) error {
	data, control := in.sys.plainBuffers()
	n, oobn, _, src, err := s.conn.ReadMsgUDPAddrPort(data, control)
	if err != nil {
		return closed(err)
	}
	if n > packet.MaxPacket {
		t.drops[DropTruncated]++
		return nil
	}
	d := datagram{data: data[:n], src: src}
	d.parse(control[:oobn])
	in.take(d, s.local, loadTap(&s.tap), t)
	return nil
}
