// FuzzTalk: two engines whose programs keep the rules, and an adversary between them that loses,
// repeats, delays and reorders packets, and forges packets as a stranger. The adversary may cost
// time, but never data: the streams of the model (model_test.go) check each byte and completion.

package transport

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

func FuzzTalk(f *testing.F) {
	f.Add([]byte{0})
	var all []byte
	for i := range 128 {
		all = append(all, byte(i*11+i/256))
	}
	f.Add(all)
	for how := range byte(8) { // post, transmit, one of the adversary's means, and deliver
		f.Add(append([]byte{how * 37}, bytes.Repeat([]byte{0, 0, 9 + how, 0, 1, 1, 1, 0, 4 + how, 5, 0, 0, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0}, 6)...))
	}
	f.Fuzz(playTalk)
}

func playTalk(t *testing.T, data []byte) {
	a, streams := newTalk(t, &fuzzBytes{data})
	for steps := 0; len(a.in.data) > 0 && steps < arenaSteps && !t.Failed(); steps++ {
		a.disturb(streams)
		for _, s := range streams {
			s.poll()
			s.from.qp.check(t)
		}
	}
	a.finish(streams)
}

func newTalk(t *testing.T, in *fuzzBytes) (*arena, []*stream) {
	a := &arena{t: t, in: in, net: newSimnet(t, 1)}
	a.net.room = arenaRoom
	how := int(in.byte())
	buffers := []int{0, arenaReorder, 64}
	cfg := Config{Reorder: buffers[how%3], ReadChunk: 2, Window: arenaWindow}
	x := a.net.nodeWith("fd00::1", cfg)
	cfg.Reorder = buffers[how/3%3]
	y := a.net.nodeWith("fd00::2", cfg)
	if how&128 != 0 {
		x.flight, y.flight = 8<<10, 8<<10
	}
	l := newLayout(1500)
	o := defaults()
	o.cap = verbs.QPCap{MaxSendWR: modelDepth, MaxRecvWR: modelDepth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
	o.memory, o.sigAll, o.srq, o.mtu, o.rdAtomic = l.size, false, how&64 != 0, qpstate.MTU256, arenaReads
	p, q := x.end(o), y.end(o)
	p.connect(q)
	q.connect(p)
	rng := rand.New(rand.NewPCG(1, 2)) // the input's bytes are for what happens
	return a, []*stream{newStream(t, rng, p, q, l, 20), newStream(t, rng, q, p, l, 10)}
}

// disturb lets one end do something, or the adversary.
func (a *arena) disturb(streams []*stream) {
	in := a.in
	s := streams[int(in.byte())%len(streams)]
	switch in.byte() % 13 {
	case 0:
		s.receive()
		s.rng = rand.New(rand.NewPCG(uint64(in.byte()), s.nextID))
		s.post()
	case 1:
		a.transmit(s.from.node)
	case 2, 3:
		a.deliver(0, 1+int(in.byte()%4), false)
	case 4: // reorder
		a.deliver(int(in.byte()), 1, false)
	case 5: // duplicate
		a.deliver(int(in.byte()), 1, true)
	case 6: // lose
		a.lose(int(in.byte()), 1)
	case 7: // lose a tail
		a.lose(int(in.byte()), len(a.wire))
	case 8: // repeat an old packet
		a.repeat(int(in.byte()))
	case 9:
		a.stranger(s)
	case 10:
		a.net.now += time.Duration(in.byte()) * 20 * time.Microsecond
		fallthrough
	default:
		a.wait(s.from.node)
	}
}

// receive posts receives while the queue pair accepts them.
func (s *stream) receive() {
	if s.to.qp.Query().State == qpstate.RTS {
		s.postRecvs()
	}
}

// wait lets a node's next deadline come, if its packets have had the time to arrive.
func (a *arena) wait(s *simnode) {
	if at, ok := s.engine.Deadline(); ok && a.in.byte()%2 == 0 {
		a.net.now = max(a.net.now, at)
	}
	s.engine.Advance(a.net.now)
}

// stranger sends a packet that looks like the peer's, but comes from another address or is for another
// queue pair.
func (a *arena) stranger(s *stream) {
	in := a.in
	s.to.qp.mu.Lock()
	near := []int64{s.to.qp.resp.expected, s.to.qp.req.una, s.to.qp.req.nxt}[in.byte()%3]
	s.to.qp.mu.Unlock()
	data := in.packet(s.to, uint32(near))
	how := in.byte()
	if how&3 == 0 && len(data) > 0 {
		data = data[:int(in.byte())%len(data)]
	}
	from := s.from.node
	if how&4 == 0 && len(data) > 7 {
		data[7] ^= 1 | in.byte() // the destination's number
	} else {
		from = s.to.node
	}
	a.receive(arenaPacket{from, s.to.node, data})
}

// finish delivers everything until both streams are done. That must not take long.
func (a *arena) finish(streams []*stream) {
	busy := true
	for rounds := 0; busy && !a.t.Failed(); rounds++ {
		if rounds == 20_000 {
			a.t.Fatalf("not done after %v", a.net.now)
		}
		busy = false
		for _, s := range streams {
			s.receive()
			s.post()
			a.transmit(s.from.node)
			s.poll()
			s.from.qp.check(a.t)
			busy = busy || !s.done()
		}
		if len(a.wire) > 0 {
			a.net.now += 10 * time.Microsecond
			a.deliver(0, len(a.wire), false)
			continue
		}
		next := a.net.now + 100*time.Microsecond // both ends may wait for receives
		for _, n := range a.net.nodes {
			if at, ok := n.engine.Deadline(); ok {
				next = min(next, max(at, a.net.now))
			}
		}
		a.net.now = next
		for _, n := range a.net.nodes {
			n.engine.Advance(a.net.now)
		}
	}
	failed, timeouts := false, uint64(0)
	for _, n := range a.net.nodes {
		timeouts += n.engine.Counter(Timeouts)
	}
	for _, s := range streams {
		failed = failed || s.failed
	}
	if retries := uint64(defaults().retry); failed && timeouts < retries {
		a.t.Errorf("a work request has failed after %d timeouts", timeouts)
	}
	for _, s := range streams {
		if !failed && !bytes.Equal(s.shadow, s.to.mem[:s.recvs]) {
			a.t.Error("remote memory differs from the model")
		}
	}
}
