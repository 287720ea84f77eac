// Keeping packets that came ahead of a gap. The standard's responder drops them, and the requester
// sends them again. A responder that keeps them serves them as soon as the missing packet has come,
// so only that packet must be sent again. The order of service does not change.
//
// Config.Keep limits how many packets an engine keeps. Everything here runs with the queue pair's
// lock held, except the pool, which has its own.

package transport

import (
	"cmp"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

const (
	// keepReach is how far ahead of the missing packet a packet is kept. It must not be less
	// than the packets that a requester of this package has in flight.
	keepReach = 1024
	// nakAgain is the number of packets kept behind one gap after which its NAK is repeated,
	// because the NAK or the packet may be lost. The next is after four times as many.
	nakAgain = 16
)

// ahead is the reorder buffer of a queue pair. Few of thousands of queue pairs have a gap at the
// same time, so the buffer has no memory without one.
type ahead struct {
	packets []aheadPacket // the kept packets, by number; all are behind the expected one
	since   int           // packets kept since the gap was reported
	next    int           // the NAK is repeated when since reaches next
}

type aheadPacket struct {
	seq int64
	raw []byte
}

// keep keeps packet seq, which is ahead of the expected one. It returns false if it cannot.
func (qp *QP) keep(p packet.Packet, seq int64) bool {
	rs := &qp.resp
	if qp.engine.cfg.Keep == 0 || rs.waitsRecv || seq-rs.expected >= keepReach {
		return false
	}
	at, kept := slices.BinarySearchFunc(rs.ahead.packets, seq, func(a aheadPacket, seq int64) int { return cmp.Compare(a.seq, seq) })
	if kept {
		return true
	}
	raw := qp.engine.kept.take(qp.engine.cfg.Keep)
	if raw == nil {
		return false
	}
	rs.ahead.packets = slices.Insert(rs.ahead.packets, at, aheadPacket{seq, append(raw, p.Bytes()...)})
	rs.ahead.since++
	qp.engine.counters.add(Kept, 1)
	return true
}

// gap reports that the expected packet is missing, at the first packet behind it and again now and
// then.
func (qp *QP) gap(kept bool) {
	rs := &qp.resp
	switch {
	case !rs.silent:
		rs.ahead.since, rs.ahead.next = 0, nakAgain
	case kept && rs.ahead.since >= rs.ahead.next:
		rs.ahead.next *= 4
	default:
		if !kept {
			qp.engine.counters.add(DropStray, 1)
		}
		return
	}
	rs.silent = true
	qp.engine.counters.add(SequenceNAKs, 1)
	qp.nak(packet.NAKPSNSequence, rs.expected)
}

// serveKept serves the kept packets that follow the packet just served, up to the next gap.
func (qp *QP) serveKept() {
	rs := &qp.resp
	for len(rs.ahead.packets) > 0 {
		a := rs.ahead.packets[0]
		if a.seq > rs.expected {
			qp.gap(true)
			return
		}
		rs.ahead.packets[0].raw = nil
		rs.ahead.packets = rs.ahead.packets[1:]
		if a.seq < rs.expected { // a number of the responses to the READ that was just served
			qp.engine.kept.release(a.raw)
			continue
		}
		p, err := packet.Parse(a.raw)
		ok := err == nil && qp.serveExpected(p)
		qp.engine.kept.release(a.raw)
		if !ok {
			qp.forgetKept()
			return
		}
		qp.acknowledgeUpTo(rs.expected - 1)
	}
	rs.ahead.packets = nil
}

// forgetKept drops the kept packets. The requester sends them again.
func (qp *QP) forgetKept() {
	for _, a := range qp.resp.ahead.packets {
		qp.engine.kept.release(a.raw)
	}
	qp.resp.ahead = ahead{}
}

// spare is how many buffers the pool has at hand for the next gap; more are given back when none is in use.
const spare = 256

// keepPool has the buffers of kept packets.
type keepPool struct {
	mu   sync.Mutex
	free [][]byte
	used int
}

// take returns an empty buffer for a packet, or nil if most are in use.
func (k *keepPool) take(most int) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used >= most {
		return nil
	}
	k.used++
	if last := len(k.free) - 1; last >= 0 {
		raw := k.free[last]
		k.free = k.free[:last]
		return raw
	}
	return make([]byte, 0, packet.MaxPacket)
}

func (k *keepPool) release(raw []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used--
	k.free = append(k.free, raw[:0])
	if k.used == 0 && len(k.free) > spare {
		clear(k.free[spare:])
		k.free = k.free[:spare]
	}
}

// drop gives back all buffers that are not in use.
func (k *keepPool) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = nil
}
