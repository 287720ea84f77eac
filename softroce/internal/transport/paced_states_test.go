// Tests of queue pairs that wait for their rate while something else happens to them.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// packetTime is how long a packet of 1000 bytes takes at the lowest rate, with its headers.
const packetTime = 1028 * time.Second / 1_250_000

// slowly steps until done returns true, a second at most, and keeps the rates to some peers at the lowest.
func (e *end) slowly(done func() bool, peers ...*end) {
	n := e.node.net
	n.tb.Helper()
	for limit := n.now + time.Second; !done() && n.now < limit; {
		for _, peer := range peers {
			e.node.engine.routes.find(e.node.addr, peer.node.addr).pacer.congested(n.now)
		}
		if !n.step(n.now + cnpPause) {
			n.now += cnpPause
		}
	}
}

// slow makes the rate to a peer the lowest.
func (e *end) slow(peer *end) {
	n := e.node.net
	for range 100 {
		n.now += cnpPause
		e.node.engine.routes.find(e.node.addr, peer.node.addr).pacer.congested(n.now)
	}
}

// completed returns a function that returns true when k work requests of the end have completed.
func (e *end) completed(k int) func() bool {
	var wcs [64]verbs.WC
	return func() bool {
		k -= e.scq.Poll(wcs[:])
		return k <= 0
	}
}

// queue posts n messages of 1000 bytes, of which the first leaves at once and the others wait.
func (e *end) queue(b *end, n int) {
	for range n {
		e.write(b, 1000)
	}
	e.node.net.transmit()
}

// TestPacedDrain checks that a paced queue pair in SQD sends what has begun, and that the event comes only then.
func TestPacedDrain(t *testing.T) {
	n, a, b := pacedPair(t, verbs.UC)
	a.slow(b)
	a.write(b, 8000)
	n.transmit()
	begin, done := n.now, a.completed(1)
	a.modify(qpstate.Attr{State: qpstate.SQD, EnSQDAsyncNotify: true}, qpstate.MaskEnSQDAsyncNotify)
	a.write(b, 1000) // begins only after SQD
	a.slowly(func() bool { return len(a.node.events) > 0 }, b)
	a.wantEvent(verbs.EventSQDrained)
	if took := n.now - begin; took < 5*packetTime || took > 9*packetTime || !done() {
		t.Errorf("8000 bytes are drained after %v, want about %v; completed: %v", took, 7*packetTime, done())
	}
	a.modify(qpstate.Attr{State: qpstate.RTS}, 0)
	a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMAWrite)
}

// TestPacedEnd moves a queue pair that waits to ERR and to RESET, and closes one. What it had reserved is then free: another
// one need not wait for it.
func TestPacedEnd(t *testing.T) {
	for name, stop := range map[string]func(*end){
		"ERR":   func(a *end) { a.modify(qpstate.Attr{State: qpstate.Error}, 0) },
		"RESET": func(a *end) { a.modify(qpstate.Attr{State: qpstate.Reset}, 0) },
		"Close": func(a *end) { _ = a.qp.Close() },
	} {
		n, as, bs := manyPaced(t)
		last := len(as) - 1
		for _, a := range as[:last] {
			stop(a)
		}
		begin := n.now
		as[last].slowly(as[last].completed(3), bs[0])
		if took := n.now - begin; took > 10*time.Millisecond {
			t.Errorf("%s: the last one of 100 waits for %v after the others have ended", name, took)
		}
		if name == "ERR" {
			var wcs [4]verbs.WC
			for k := as[1].scq.Poll(wcs[:]); k != 3 || wcs[2].Status != verbs.WCWRFlushErr; {
				t.Fatalf("%d completions, the last is %v; want 3, flushed", k, wcs[2].Status)
			}
		}
	}
}

// TestIdleHasNoCredit checks that a queue pair with nothing to send keeps nothing of what it had reserved.
func TestIdleHasNoCredit(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		n, a, b := pacedPair(t, kind)
		var ah *verbs.AH
		if kind == verbs.UD {
			ah = a.ah(b)
		}
		a.stream(b, ah, 500)
		a.node.engine.routes.find(a.node.addr, b.node.addr).pacer.congested(n.now)
		a.stream(b, ah, 100)
		if a.node.engine.Counter(RateWaits) == 0 {
			t.Fatal("nothing had to wait")
		}
		if p := &a.qp.paced; p.quantum.Load() != 0 || p.in {
			t.Errorf("%v: an idle queue pair may send %d bytes; it waits: %v", kind, p.quantum.Load(), p.in)
		}
	}
}

// TestDrainedHasNoCredit is the same in SQD, where a message that has not begun waits for RTS.
func TestDrainedHasNoCredit(t *testing.T) {
	n, a, b := pacedPair(t, verbs.UC)
	a.stream(b, nil, 500)
	a.node.engine.routes.find(a.node.addr, b.node.addr).pacer.congested(n.now)
	p, done := &a.qp.paced, a.completed(20)
	for range 40 {
		a.write(b, 1000)
	}
	n.run(time.Second, done)
	if p.quantum.Load() == 0 && !p.in {
		t.Fatal("nothing is allowed")
	}
	a.modify(qpstate.Attr{State: qpstate.SQD}, 0)
	n.settle()
	if p.quantum.Load() != 0 || p.in {
		t.Errorf("a drained queue pair may send %d bytes; it waits: %v", p.quantum.Load(), p.in)
	}
	a.modify(qpstate.Attr{State: qpstate.RTS}, 0)
	n.run(time.Second, func() bool { return a.qp.req.head == a.qp.req.tail })
}

// TestPacedAlternately sends datagrams to two slow addresses in turn. Each gets what its rate allows.
func TestPacedAlternately(t *testing.T) {
	n, a, b := pacedPair(t, verbs.UD)
	y := n.node("fd00::3")
	y.flight = 1 << 20
	c := y.end(b.opts)
	c.connect(a)
	ahs, peers := []*verbs.AH{a.ah(b), a.ah(c)}, []*end{b, c}
	a.slow(b)
	a.slow(c)
	const messages = 20
	begin := n.now
	for i := range messages {
		a.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 1000)}, AH: ahs[i%2], RemoteQPN: peers[i%2].qp.QPN(), RemoteQKey: 0x1234})
	}
	a.slowly(a.completed(messages), b, c)
	if took, most := n.now-begin, messages*packetTime*3/4; took > most {
		t.Errorf("%d datagrams to two addresses take %v, want at most %v", messages, took, most)
	}
	if took, least := n.now-begin, messages/2*packetTime*3/4; took < least {
		t.Errorf("%d datagrams to two addresses take %v, want at least %v", messages, took, least)
	}
}
