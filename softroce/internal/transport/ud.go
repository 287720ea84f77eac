// Unreliable datagrams. A message is one packet and may come from any sender. The IP header of
// the packet precedes the message in the receive.
//
// Senders of UC and UD wait while a receiver on this host has no room.

package transport

import (
	"net/netip"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// grhLen is the number of bytes before the message in a UD receive: a GRH, or 20 zero bytes and
// an IPv4 header.
const grhLen = 40

// slIPv4 is the service level with which mlx5 reports a datagram over IPv4.
const slIPv4 = 0xa

// NetworkInSL makes the service level of a datagram's completion say whether the datagram came over
// IPv4, as mlx5 does. Programs in C rely on it: UCX drops other datagrams. NetworkInSL must be called
// before any object is made.
func (e *Engine) NetworkInSL() { e.networkInSL = true }

// ownQKey is the bit of a send's QKEY that selects the sender's own QKEY instead.
const ownQKey = 1 << 31

// receiveDatagram copies a message into a receive.
func (qp *QP) receiveDatagram(now time.Duration, p packet.Packet, d *Datagram) {
	rs := &qp.resp
	h, payload := p.DETH(), p.Payload()
	if h.QKey() != qp.attr.QKey {
		qp.engine.counters.add(DropMismatch, 1)
		return
	}
	if d.TOS&ecnMask == ecnCongested {
		qp.markedDatagram(now, d, h.SrcQPN())
	}
	switch {
	case !p.PayloadFits(qp.mtu):
		qp.engine.counters.add(DropTooLong, 1)
		return
	case !qp.takeRecv():
		qp.missReceive()
		return
	case uint64(grhLen+len(payload)) > rs.recv.length:
		qp.tooLong()
		return
	}
	var buf [grhLen]byte
	grh := buf[:grhLen]
	frame := packet.Frame{Src: netip.AddrPortFrom(d.Src, packet.Port), Dst: netip.AddrPortFrom(d.Dst, packet.Port), TOS: d.TOS, TTL: d.TTL}
	lead := 0
	if d.Src.Is4() {
		lead = 20
	}
	if _, err := frame.AppendIP(grh[:lead], packet.UDPLen+len(d.Data)); err != nil {
		qp.engine.counters.add(DropMalformed, 1)
		return
	}
	if !qp.scatter(qp.recvPD, rs.recv.sgl, 0, grh) || !qp.scatter(qp.recvPD, rs.recv.sgl, grhLen, payload) {
		qp.failRecv(verbs.WCLocProtErr)
		qp.fail(refusal{})
		return
	}
	wc := verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(grhLen + len(payload)), SrcQPN: h.SrcQPN(), Flags: verbs.WCGRH}
	if qp.engine.networkInSL && d.Src.Is4() {
		wc.SL = slIPv4
	}
	if imm := p.ImmDt(); imm != nil {
		wc.SetImm(imm.Data())
	}
	qp.completeRecv(&wc, p.BTH().Solicited())
}

// tooLong drops a UC or UD message that is longer than its receive. The queue pair goes
// on, because a stranger may have sent the message. A receive of the queue pair's own
// waits for the next message. A receive of an SRQ completes with an error, because it
// cannot go back to the SRQ (class E of the specification).
func (qp *QP) tooLong() {
	qp.engine.counters.add(DropTooLong, 1)
	if qp.srq != nil {
		qp.failRecv(verbs.WCLocLenErr)
	}
}

// roomPause is the time between two looks at a full receiver.
const roomPause = 50 * time.Microsecond

// waitForRoom returns true if the receiver has no room for the next burst, which begins with a
// packet of w. The requester then waits. The burst may have the messages after w, too.
func (qp *QP) waitForRoom(now time.Duration, w *sendWQE, to *Path) bool {
	if qp.engine.cfg.Full == nil {
		return false
	}
	r := &qp.req
	const header = 64
	left := w.length - int(r.nxt-w.first)*qp.mtu
	if !qp.engine.cfg.Full(to, min(maxBurst, int(r.tail-r.cur)*(left+header))) {
		return false
	}
	qp.engine.counters.add(RoomWaits, 1)
	r.waiting, r.deadline = true, now+roomPause
	return true
}
