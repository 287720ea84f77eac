package transport

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// cable connects two engines by goroutines. The goroutine that transmits packets also passes
// them to the other engine. A microsecond passes with each look at the clock, so that no ACK times out
// because a goroutine has to wait for a processor.
type cable struct {
	nodes [2]*simnode
	looks atomic.Int64
}

func (c *cable) now() time.Duration { return time.Duration(c.looks.Add(1)) * time.Microsecond }

// transmit sends node i's packets, then the other node's answers, until both have sent all.
func (c *cable) transmit(i int, outs *[2]*Outbox) {
	for idle := 0; idle < 2; i = 1 - i {
		idle++
		e := c.nodes[i].engine
		for bursts := e.Transmit(c.now(), outs[i]); len(bursts) > 0; bursts = e.Transmit(c.now(), outs[i]) {
			idle = 0
			var batch []Datagram
			for _, b := range bursts {
				for off := 0; off < len(b.Data); off += b.Segment {
					batch = append(batch, Datagram{Data: b.Data[off:min(off+b.Segment, len(b.Data))], Src: b.Path.Src, Dst: b.Path.Dst})
				}
			}
			c.nodes[1-i].engine.Receive(c.now(), batch)
		}
	}
}

// TestConcurrent posts to several queue pairs from several goroutines each, while other
// goroutines drive the timers and poll. All work requests must complete.
func TestConcurrent(t *testing.T) {
	const pairs, posters, messages, size = 3, 3, 400, 3000
	n := newSimnet(t, 1)
	c := &cable{nodes: [2]*simnode{n.node("10.0.0.1"), n.node("10.0.0.2")}}
	for _, s := range c.nodes {
		s.engine.cfg.Event = func(e Event) { t.Errorf("%v", e.Type) }
	}
	newOuts := func() *[2]*Outbox {
		return &[2]*Outbox{NewOutbox(make([]byte, 1<<16), 4, 16), NewOutbox(make([]byte, 1<<16), 4, 16)}
	}
	o := defaults()
	o.cqDepth, o.timeout = 4096, 16
	var wg sync.WaitGroup
	var stop atomic.Bool
	clock := make(chan struct{})
	go func() {
		defer close(clock)
		outs := newOuts()
		for !stop.Load() {
			for i, s := range c.nodes {
				s.engine.Advance(c.now())
				c.transmit(i, outs)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	for range pairs {
		a, b := c.nodes[0].end(o), c.nodes[1].end(o)
		a.connect(b)
		b.connect(a)
		fill(a.mem[:size], 1)
		var credit atomic.Int64
		credit.Store(60)
		for range posters {
			wg.Go(func() {
				outs := newOuts()
				wrs := []verbs.SendWR{
					{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
					{Opcode: verbs.OpSend}}
				for range messages {
					for credit.Add(-2) < 0 {
						if credit.Add(2); t.Failed() {
							return
						}
						runtime.Gosched()
					}
					if _, err := b.qp.PostRecv([]verbs.RecvWR{{}}); err != nil {
						t.Error(err)
						return
					}
					if _, err := a.qp.PostSend(wrs); err != nil {
						t.Error(err)
						return
					}
					c.transmit(0, outs)
				}
			})
		}
		wg.Go(func() {
			var wcs [16]verbs.WC
			deadline := testkit.Deadline()
			for sent, received := 0, 0; sent < 2*posters*messages || received < posters*messages; runtime.Gosched() {
				k := a.scq.Poll(wcs[:])
				for _, wc := range wcs[:k] {
					if wc.Status != verbs.WCSuccess {
						t.Errorf("%v", wc.Status)
						return
					}
				}
				credit.Add(int64(k))
				sent += k
				received += b.rcq.Poll(wcs[:])
				if time.Now().After(deadline) {
					t.Errorf("after %v only %d sends and %d receives are complete", testkit.Limit, sent, received)
					return
				}
			}
			if !bytes.Equal(a.mem[:size], b.mem[:size]) {
				t.Error("the peer received other bytes than were sent")
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	<-clock
	for _, s := range c.nodes {
		if naks := s.engine.Counter(SequenceNAKs); naks != 0 {
			t.Errorf("%d NAKs: packets were reordered", naks)
		}
	}
}
