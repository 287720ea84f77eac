package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestRoom lets a UC receiver be full at first, and again after each burst. The sender waits, and
// then sends everything. A sender whose queue pair ends does not wait. RC does not ask.
func TestRoom(t *testing.T) {
	sim, a, b := pair(t, 1, ucOptions())
	looks, free := 0, time.Duration(0)
	a.node.engine.cfg.Full = func(to *Path, n int) bool {
		if to.Dst != b.node.addr || n < 1 || n > maxBurst {
			t.Errorf("asked for %d bytes to %v", n, to.Dst)
		}
		looks++
		if sim.now < free {
			return true
		}
		free = sim.now + 10*time.Millisecond
		return false
	}
	free = 10 * time.Millisecond
	const messages, size = 3, 10_000
	fill(a.mem[:size], size)
	for i := range messages {
		b.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{b.sge(i*size, size)}})
		a.send(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, size)}})
	}
	sim.settle()
	for i := range messages {
		a.want(a.scq, uint64(i), verbs.WCSuccess, verbs.WCSend)
		b.want(b.rcq, uint64(i), verbs.WCSuccess, verbs.WCRecv)
		if !bytes.Equal(b.mem[i*size:][:size], a.mem[:size]) {
			t.Errorf("message %d arrived with other bytes", i)
		}
	}
	if waits := a.node.engine.Counter(RoomWaits); sim.now < 10*time.Millisecond || waits < 100 || uint64(looks) <= waits {
		t.Errorf("%d looks and %d waits until %v; want 100 waits and 10 ms", looks, waits, sim.now)
	}

	free = never
	a.send(verbs.SendWR{ID: 9, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, size)}})
	sim.transmit()
	a.modify(qpstate.Attr{State: qpstate.Error}, 0)
	a.want(a.scq, 9, verbs.WCWRFlushErr, verbs.WCSend)
	sim.settle()

	sim, a, b = pair(t, 1, defaults())
	a.node.engine.cfg.Full = func(*Path, int) bool { t.Error("RC asked for room"); return true }
	b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, size)}})
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, size)}})
	sim.settle()
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
}
