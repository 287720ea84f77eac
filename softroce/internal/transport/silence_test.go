// Tests of silence: peers that do not answer, beside others.

package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// readers returns k queue pairs to one host, and then one to another host. All have answers if proven is true.
func readers(t *testing.T, k int, proven bool) (n *simnet, as, bs []*end) {
	n = newSimnet(t, 1)
	cfg := Config{Reorder: 64}
	x, dead, live := n.nodeWith("fd00::1", cfg), n.nodeWith("fd00::2", cfg), n.nodeWith("fd00::3", cfg)
	o := defaults()
	o.memory, o.timeout = 1<<17, 14
	for _, s := range n.nodes {
		s.flight = 64 << 10
	}
	for i := range k + 1 {
		to := dead
		if i == k {
			to = live
		}
		a, b := x.end(o), to.end(o)
		a.connect(b)
		b.connect(a)
		if proven || i == k {
			a.move(b, verbs.OpRDMAWrite, 1024)
		}
		as, bs = append(as, a), append(bs, b)
	}
	return n, as, bs
}

// TestDeadHostAmongReaders posts READs to a host that is dead, by many queue pairs, and then one to another host. It
// must not wait until each of the many has found out. All of them fail in the usual time.
func TestDeadHostAmongReaders(t *testing.T) {
	for _, proven := range []bool{true, false} {
		for _, k := range []int{1, 64, 256} {
			n, as, bs := readers(t, k, proven)
			bs[0].node.asleep = never
			start := n.now
			for i, a := range as[:k] {
				a.read(bs[i], 64<<10)
			}
			n.transmit()
			as[k].move(bs[k], verbs.OpRDMARead, 100<<10)
			if took := n.now - start; took > 10*time.Millisecond {
				t.Errorf("%d queue pairs to a dead host, proven %v: a READ from another host took %v", k, proven, took)
			}
			for _, a := range as[:k] {
				a.want(a.scq, 0, verbs.WCRetryExcErr, 0)
			}
			if took := n.now - start; took > 2*time.Second {
				t.Errorf("%d queue pairs to a dead host, proven %v: the last failed after %v", k, proven, took)
			}
		}
	}
}

// TestUnprovenAddress sends by many queue pairs to an address that never answers: all together send what one would, and
// fail when it would. If they begin one after the other, the last fails a little later, and sends one packet more.
func TestUnprovenAddress(t *testing.T) {
	for _, k := range []int{1, 2, 5, 64} {
		for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
			for _, gap := range []time.Duration{0, 100 * time.Microsecond} {
				n, as, bs := readers(t, k, false)
				sent := 0
				n.tap = func(*simnode, *simnode, []byte) bool { sent++; return false }
				start := n.now
				for i, a := range as[:k] {
					a.send(verbs.SendWR{Opcode: op, SGL: []verbs.SGE{a.sge(0, 64<<10)}, RemoteAddr: bs[i].mr.Addr(), RKey: bs[i].mr.RKey()})
					n.transmit()
					n.now += gap
				}
				for _, a := range as[:k] {
					a.want(a.scq, 0, verbs.WCRetryExcErr, 0)
				}
				most := unprovenWindow + int(as[0].opts.retry)
				if gap > 0 {
					most++
				}
				if took := n.now - start; sent > most || sent < unprovenWindow || took > 2*time.Second {
					t.Errorf("%v by %d queue pairs, %v apart: %d packets in %v, want at most %d", op, k, gap, sent, took, most)
				}
			}
		}
	}
}

// TestUnprovenForever is TestUnprovenAddress with TIMEOUT 0: no queue pair fails, and each gets a turn.
func TestUnprovenForever(t *testing.T) {
	const pairs, wait = 64, 10 * time.Second
	n, as, bs := readers(t, pairs, false)
	sent := 0
	n.tap = func(*simnode, *simnode, []byte) bool { sent++; return false }
	for i, a := range as[:pairs] {
		a.qp.attr.Timeout = 0
		a.write(bs[i], 64<<10)
	}
	for n.step(n.now+wait) && n.now < wait {
	}
	if most := unprovenWindow + int(wait/(500*time.Millisecond)); sent > most || sent < most/2 {
		t.Errorf("%d packets in %v, want at most %d", sent, wait, most)
	}
}

// TestUnprovenQueuePairsAlternate: some queue pairs at an address never answer, and the address has not answered yet. Another
// one gets its answer, which opens the window for all.
func TestUnprovenQueuePairsAlternate(t *testing.T) {
	for _, timeout := range []uint8{14, 20, 0} {
		n, as, bs := readers(t, 6, false)
		for i, a := range as[:6] {
			if a.qp.attr.Timeout = timeout; i < 5 {
				bs[i].modify(qpstate.Attr{State: qpstate.Reset}, 0)
				a.write(bs[i], 8<<10)
				n.transmit()
			}
		}
		start := n.now
		as[5].move(bs[5], verbs.OpRDMAWrite, 64<<10)
		if took := n.now - start; took > 3*time.Second {
			t.Errorf("TIMEOUT %d: a WRITE behind five queue pairs without an answer took %v", timeout, took)
		}
		if as[5].qp.route.window.Load() < firstWindow {
			t.Errorf("TIMEOUT %d: the window is %d bytes after an answer", timeout, as[5].qp.route.window.Load())
		}
	}
}

// TestNewQueuePairAtAKnownHost: a new queue pair's first burst is not small if its host has answered others.
func TestNewQueuePairAtAKnownHost(t *testing.T) {
	n, as, bs := readers(t, 1, true)
	a, b := as[0].node.end(as[0].opts), bs[0].node.end(bs[0].opts)
	a.connect(b)
	b.connect(a)
	sent := 0
	n.tap = func(*simnode, *simnode, []byte) bool { sent++; return true }
	a.write(b, 12<<10)
	n.transmit()
	if sent != 12 {
		t.Errorf("%d packets of 12 before the first acknowledgement", sent)
	}
}

// TestRouteOpensForThoseInLine: queue pairs in line count the timeouts of an address that does not answer, but none as theirs.
// If it answers after all, they begin with all of their retries.
func TestRouteOpensForThoseInLine(t *testing.T) {
	n, as, bs := readers(t, 8, false)
	n.tap = func(*simnode, *simnode, []byte) bool { return false }
	for i, a := range as[:8] {
		a.write(bs[i], 64<<10)
		n.transmit()
	}
	first, last := as[0], as[7]
	e, q := last.node.engine, &last.qp.req
	n.run(time.Second, func() bool { return q.retries == last.opts.retry-3 })
	// The first queue pair has sent four packets, and two others one each.
	if got := e.Counter(Timeouts); q.max > q.una || got != 3 || e.Counter(Retransmits) != 3 {
		t.Errorf("%d timeouts and %d retransmissions, want 3: those in line have sent nothing", got, e.Counter(Retransmits))
	}
	first.proven()
	n.run(time.Second, func() bool { return q.nxt > q.una })
	if q.retries != last.opts.retry {
		t.Errorf("the last in line begins with %d retries", q.retries)
	}
}

// TestDeadQueuePairsAtALiveHost: the host is alive, but most queue pairs there are gone. The silence of these does not
// keep the others waiting, though their route has been idle meanwhile.
func TestDeadQueuePairsAtALiveHost(t *testing.T) {
	n, as, bs := readers(t, 64, true)
	for i, a := range as[:63] {
		a.qp.attr.Timeout = 0
		bs[i].modify(qpstate.Attr{State: qpstate.Reset}, 0)
		a.read(bs[i], 64<<10)
		a.write(bs[i], 64<<10)
	}
	n.run(time.Second, func() bool { return as[0].qp.route.is(silent) })
	for _, op := range []verbs.Opcode{verbs.OpRDMARead, verbs.OpRDMAWrite} {
		start := n.now
		as[63].move(bs[63], op, 64<<10)
		if took := n.now - start; took > time.Millisecond {
			t.Errorf("%v beside queue pairs that are gone took %v", op, took)
		}
	}
}

// TestSilenceEnds stops a host for a while. Meanwhile each queue pair sends one packet, besides probes and packets that it
// had sent before. Everything goes on when the host is back, without an error.
func TestSilenceEnds(t *testing.T) {
	const pairs = 64
	n, as, bs := readers(t, pairs, true)
	bs[0].node.asleep = n.now + 500*time.Millisecond
	for i, a := range as[:pairs] {
		a.write(bs[i], 64<<10)
		a.read(bs[i], 64<<10)
	}
	fresh, before := 0, make([]int64, pairs)
	for n.now < 60*time.Millisecond { // until the first ACK timeout
		quiet := as[0].qp.route.is(silent)
		n.step(never - 1)
		for i, a := range as[:pairs] {
			if quiet {
				fresh += int(a.qp.req.max - before[i])
			}
			before[i] = a.qp.req.max
		}
	}
	if fresh == 0 || fresh > pairs {
		t.Errorf("%d packets to a silent host, want one by each of those queue pairs that had sent nothing: at most %d", fresh, pairs)
	}
	for _, a := range as[:pairs] {
		a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMAWrite)
		a.want(a.scq, 0, verbs.WCSuccess, verbs.WCRDMARead)
	}
	if as[0].qp.route.is(silent) {
		t.Error("the route is silent although its peer answers")
	}
}

// TestUnprovenPeer checks what a host gets whose address a stranger gave: four packets, and then
// one per retry. The host's first acknowledgement opens the window.
func TestUnprovenPeer(t *testing.T) {
	o := defaults()
	net, a, b := pair(t, 1, o)
	sent := 0
	net.tap = func(from, _ *simnode, _ []byte) bool { sent++; return false }
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.transmit()
	if sent != unprovenWindow {
		t.Errorf("%d packets before any acknowledgement, want %d", sent, unprovenWindow)
	}
	a.want(a.scq, 0, verbs.WCRetryExcErr, 0)
	if want := unprovenWindow + int(o.retry); sent != want {
		t.Errorf("%d packets until RETRY_EXC_ERR, want %d", sent, want)
	}

	net, a, b = pair(t, 1, o)
	w := net.watch(a.node)
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.transmit()
	if len(w.packets) != unprovenWindow {
		t.Fatalf("%d packets before any acknowledgement, want %d", len(w.packets), unprovenWindow)
	}
	net.settle()
	if len(w.packets) != 60 {
		t.Errorf("%d packets after the acknowledgement, want all 60", len(w.packets))
	}
}
