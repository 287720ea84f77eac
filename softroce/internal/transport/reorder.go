// The reorder buffer: packets that came ahead of a gap. The standard's responder drops them, and the requester
// sends them again. A responder that buffers them serves them as soon as the missing packet has come,
// so only that packet must be sent again. The order of service does not change.
//
// Config.Reorder limits how many packets an engine buffers. Everything here runs with the queue pair's
// lock held, except the pool, which has its own.

package transport

import (
	"cmp"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

const (
	// reorderReach is how far ahead of the missing packet a packet is buffered. It must not be less
	// than the packets that a requester of this package has in flight.
	reorderReach = 1024
	// nakAgain is the number of packets buffered behind one gap after which its NAK is repeated,
	// because the NAK or the packet may be lost. The next is after four times as many.
	nakAgain = 16
)

// Reorder returns Config.Reorder.
func (e *Engine) Reorder() int { return e.cfg.Reorder }

// SetReorder changes Config.Reorder. No other call of the engine may run meanwhile.
func (e *Engine) SetReorder(packets int) { e.cfg.Reorder = packets }

// reorderBuffer is that of a queue pair. Few of thousands of queue pairs have a gap at the
// same time, so the buffer has no memory without one.
type reorderBuffer struct {
	packets []reorderedPacket // the buffered packets, by number; all are behind the expected one
	since   int               // packets buffered since the gap was reported
	next    int               // the NAK is repeated when since reaches next
}

type reorderedPacket struct {
	seq int64
	raw []byte
}

// buffer buffers packet seq, which is ahead of the expected one. It returns false if it cannot.
func (qp *QP) buffer(p packet.Packet, seq int64) bool {
	rs := &qp.resp
	if qp.engine.cfg.Reorder == 0 || rs.waitsRecv || seq-rs.expected >= reorderReach {
		return false
	}
	at, has := slices.BinarySearchFunc(rs.reorder.packets, seq, func(a reorderedPacket, seq int64) int { return cmp.Compare(a.seq, seq) })
	if has {
		return true
	}
	raw := qp.engine.reorder.take(qp.engine.cfg.Reorder)
	if raw == nil {
		return false
	}
	rs.reorder.packets = slices.Insert(rs.reorder.packets, at, reorderedPacket{seq, append(raw, p.Bytes()...)})
	rs.reorder.since++
	qp.engine.counters.add(Kept, 1)
	return true
}

// gap reports that the expected packet is missing, at the first packet behind it and again now and
// then.
func (qp *QP) gap(buffered bool) {
	rs := &qp.resp
	switch {
	case !rs.silent:
		rs.reorder.since, rs.reorder.next = 0, nakAgain
	case buffered && rs.reorder.since >= rs.reorder.next:
		rs.reorder.next *= 4
	default:
		if !buffered {
			qp.engine.counters.add(DropStray, 1)
		}
		return
	}
	rs.silent = true
	qp.engine.counters.add(SequenceNAKs, 1)
	qp.nak(packet.NAKPSNSequence, rs.expected)
}

// serveBuffered serves the buffered packets that follow the packet just served, up to the next gap.
func (qp *QP) serveBuffered() {
	rs := &qp.resp
	for len(rs.reorder.packets) > 0 {
		a := rs.reorder.packets[0]
		if a.seq > rs.expected {
			qp.gap(true)
			return
		}
		rs.reorder.packets[0].raw = nil
		rs.reorder.packets = rs.reorder.packets[1:]
		if a.seq < rs.expected { // a number of the responses to the READ that was just served
			qp.engine.reorder.release(a.raw)
			continue
		}
		p, err := packet.Parse(a.raw)
		ok := err == nil && qp.serveExpected(p)
		qp.engine.reorder.release(a.raw)
		if !ok {
			qp.dropBuffered()
			return
		}
		qp.acknowledgeUpTo(rs.expected - 1)
	}
	rs.reorder.packets = nil
}

// dropBuffered drops the buffered packets. The requester sends them again.
func (qp *QP) dropBuffered() {
	for _, a := range qp.resp.reorder.packets {
		qp.engine.reorder.release(a.raw)
	}
	qp.resp.reorder = reorderBuffer{}
}

// spare is how many buffers the pool has at hand for the next gap; more are given back when none is in use.
const spare = 256

// reorderPool has the memory of all reorder buffers.
type reorderPool struct {
	mu   sync.Mutex
	free [][]byte
	used int
}

// take returns an empty buffer for a packet, or nil if most are in use.
func (k *reorderPool) take(most int) []byte {
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

func (k *reorderPool) release(raw []byte) {
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
func (k *reorderPool) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = nil
}
