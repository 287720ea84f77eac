// Tests of the read credit: what READs from many peers share.

package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// fanIn returns queue pairs of one node, each connected to another node, and those of the others.
func fanIn(t *testing.T, k, flight int) (n *simnet, as, bs []*end) {
	n = newSimnet(t, 1)
	cfg := Config{Reorder: 64, ReadChunk: 4}
	x := n.nodeWith("fd00::1", cfg)
	x.flight = flight
	o := defaults()
	o.memory, o.timeout = 1<<18, 12
	for i := range k {
		y := n.nodeWith(fmt.Sprintf("fd00::%x", i+2), cfg)
		y.flight = flight
		a, b := x.end(o), y.end(o)
		a.connect(b)
		b.connect(a)
		a.proven()
		as, bs = append(as, a), append(bs, b)
	}
	return n, as, bs
}

func (e *end) read(b *end, n int) {
	e.send(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{e.sge(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
}

// TestReadsShareTheReceiveBuffer READs from many peers, and writes to them. It checks the sum of the expected
// responses, and that all get their part.
func TestReadsShareTheReceiveBuffer(t *testing.T) {
	const peers, flight, messages, chunk = 10, 16 << 10, 8, 4 << 10
	n, as, bs := fanIn(t, peers, flight)
	done := make([]int, peers)
	for i, a := range as {
		for range messages {
			a.read(bs[i], 32<<10)
			a.write(bs[i], 1<<10)
		}
	}
	var wcs [4]verbs.WC
	finished, highest := 0, int64(0)
	for finished < 2*peers*messages {
		if !n.step(n.now + time.Second) {
			t.Fatalf("nothing happens, and %d of %d messages are complete", finished, 2*peers*messages)
		}
		expected := int64(0)
		for i, a := range as {
			k := a.scq.Poll(wcs[:])
			done[i], finished = done[i]+k, finished+k
			expected += a.qp.countReads() * 1024
		}
		if highest = max(highest, expected); expected > flight+chunk {
			t.Fatalf("%d bytes of responses are expected, want at most %d", expected, flight+chunk)
		}
		if finished == peers*messages {
			for i, k := range done {
				if k < messages-3 || k > messages+3 {
					t.Errorf("at half time queue pair %d has %d of %d messages", i, k, 2*messages)
				}
			}
		}
	}
	if highest < flight/2 {
		t.Errorf("at most %d bytes of responses were expected, want nearly %d", highest, flight)
	}
	e := as[0].node.engine
	if c := e.Counter(Timeouts); c > 0 {
		t.Errorf("%d timeouts", c)
	}
	for _, a := range as {
		_ = a.qp.Close()
	}
	if k := len(e.routes.readCredits); k > 0 {
		t.Errorf("%d receive buffers are left after the queue pairs were closed", k)
	}
}

// TestSilentPeersLeaveTheReceiveBuffer checks that peers that have ended do not stop READs from another one,
// though no READ times out.
func TestSilentPeersLeaveTheReceiveBuffer(t *testing.T) {
	_, as, bs := fanIn(t, 5, 16<<10)
	last := len(as) - 1
	for i, a := range as[:last] {
		a.qp.attr.Timeout = 0
		bs[i].modify(qpstate.Attr{State: qpstate.Reset}, 0)
		a.read(bs[i], 128<<10)
	}
	as[last].node.net.transmit()
	if in := as[last].qp.route.readCredit; in.spent.Load() < in.window.Load() {
		t.Fatalf("%d of %d bytes are expected", in.spent.Load(), in.window.Load())
	}
	as[last].move(bs[last], verbs.OpRDMARead, 128<<10)
}

// TestQuantaAreReserved checks that no more quanta are given than there is room for, and that one that is not
// used goes to the next in line.
func TestQuantaAreReserved(t *testing.T) {
	var s fairQueue
	s.window.Store(100 << 10)
	e := new(Engine)
	var ms [4]flow
	for i := range ms {
		ms[i].join(&s, &QP{engine: e})
	}
	s.spent.Store(100 << 10)
	for i := range ms {
		ms[i].waits()
	}
	s.spent.Store(50 << 10)
	for range 3 {
		s.advance() // room for two quanta
	}
	if ms[0].in || ms[1].in || !ms[2].in || !ms[3].in {
		t.Fatal("the first two are not out of the line, or others are")
	}
	ms[0].spend(25 << 10)
	if !ms[0].waits() || ms[1].waits() {
		t.Error("the first may send more, or the second nothing")
	}
	ms[1].endQuantum()
	ms[1].settle(0)
	if ms[2].in || !ms[3].in {
		t.Error("the quantum that was not used is not the next one's")
	}
	for i := range ms {
		ms[i].leave()
	}
	if s.spent.Load() != 50<<10 || s.first != nil {
		t.Errorf("%d bytes are spent at the end, want %d", s.spent.Load(), 50<<10)
	}
}

// TestReadBetweenTwoLines READs from a peer to which others write without end, while others READ from many peers
// without end. The queue pair waits in both lines, for the route and for the receive buffer.
func TestReadBetweenTwoLines(t *testing.T) {
	const writers = 12
	n, as, bs := fanIn(t, 24, 16<<10)
	x, y, o := as[0].node, bs[0].node, as[0].opts
	for range writers {
		a, b := x.end(o), y.end(o)
		a.connect(b)
		b.connect(a)
		a.proven()
		as, bs = append(as, a), append(bs, b)
	}
	readers := len(as) - writers
	done := make([]int, len(as))
	var wcs [64]verbs.WC
	for until := n.now + 100*time.Millisecond; n.now < until; n.step(never - 1) {
		for i, a := range as {
			done[i] += a.scq.Poll(wcs[:])
			for range 8 - int(a.qp.req.tail-a.qp.req.head) {
				if i < readers {
					a.read(bs[i], 16<<10)
				} else {
					a.write(bs[i], 16<<10)
				}
			}
		}
	}
	if mean := done[readers-1]; done[0] < mean/4 {
		t.Errorf("the queue pair in both lines has %d READs, and one in one line %d; those that write: %d", done[0], mean, done[readers:])
	}
}
