// What several sockets for an address gain, and what they cost while messages are few.

package softroce_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// BenchmarkVectors measures what two processors gain if an address has two sockets instead of one: in the receiver alone, and in the
// sender alone. So it needs two processors, not four.
//
//   - receive: the sender fills the sockets first. The time is that from the first receive to the last completion.
//   - send: two goroutines post, and nobody receives. The kernel drops what does not fit into the sockets.
//   - short: the time of short messages over many queue pairs, which one goroutine at each end answers, with four sockets
//     in use instead of one.
func BenchmarkVectors(b *testing.B) {
	openFour(b)         // or skip
	const messages = 32 // of 64 KiB, on each of two queue pairs: the receive buffer holds them
	b.Run("receive", func(b *testing.B) {
		one, two := newVectorsBench(b, 1, 1), newVectorsBench(b, 1, 2)
		compareVectors(b, messages, func(s *vectorsBench) time.Duration {
			release := softroce.HoldReceivers(s.y)
			for _, st := range s.streams {
				st.post(b, messages)
			}
			began := time.Now()
			release()
			for _, c := range s.peers {
				if _, err := c.QP().RecvCQ().Wait(context.Background(), make([]verbs.WC, 1)); err != nil {
					b.Fatal(err)
				}
			}
			took := time.Since(began)
			for _, c := range s.peers {
				if err := c.QP().PostRecv(make([]verbs.RecvWR, 1)); err != nil {
					b.Fatal(err)
				}
			}
			return took
		}, one, two)
	})
	b.Run("send", func(b *testing.B) {
		one, two := newVectorsBench(b, 1, 1), newVectorsBench(b, 2, 1)
		for _, s := range []*vectorsBench{one, two} {
			defer softroce.HoldReceivers(s.y)()
		}
		compareVectors(b, messages, func(s *vectorsBench) time.Duration {
			began := time.Now()
			var posters sync.WaitGroup
			for _, st := range s.streams {
				posters.Go(func() { st.post(b, messages) })
			}
			posters.Wait()
			return time.Since(began)
		}, one, two)
	})
	for _, c := range []struct {
		name           string
		size, inFlight int
	}{{"short/8-B/1", 8, 1}, {"short/8-B/8", 8, 8}, {"short/16-KiB/8", 16 << 10, 8}, {"short/16-KiB/64", 16 << 10, 64}} {
		b.Run(c.name, func(b *testing.B) {
			one, four := newTalk(b, "soft0", c.size), newTalk(b, softroce.FourVectorsName, c.size)
			const trips = 1000
			against(b, [2]string{"four-sockets", "one-socket"}, "trips/s", trips, [2]func(){
				func() { four.run(trips, c.inFlight) }, func() { one.run(trips, c.inFlight) }})
		})
	}
}

// compareVectors runs a round of both benches in turns.
func compareVectors(b *testing.B, messages int, round func(*vectorsBench) time.Duration, one, two *vectorsBench) {
	var took [2]time.Duration
	for b.Loop() {
		took[0] += round(one)
		took[1] += round(two)
	}
	gb := float64(b.N*2*messages*64<<10) / 1e9
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(gb/took[0].Seconds(), "one-GB/s")
	b.ReportMetric(gb/took[1].Seconds(), "two-GB/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "ratio")
}

// vectorsBench has two connections of UC between two devices, whose queue pairs are of different vectors.
type vectorsBench struct {
	x, y    *verbs.Device
	streams []*stream
	peers   []*rc.Conn // at y
}

func newVectorsBench(b *testing.B, vectorsOfX, vectorsOfY int) *vectorsBench {
	s := &vectorsBench{}
	softroce.SetVectors(b, vectorsOfX)
	s.x = openSoft(b, "soft0")
	softroce.SetVectors(b, vectorsOfY)
	s.y = openSoft(b, "soft0")
	softroce.WithoutRoom(s.x)
	for shard := range uint32(2) {
		for {
			st, peer := newUCStream(b, s.x, s.y)
			if (vectorsOfX == 1 || st.conn.QP().QPN()%2 == shard) && (vectorsOfY == 1 || peer.QP().QPN()%2 == shard) {
				s.streams, s.peers = append(s.streams, st), append(s.peers, peer)
				break
			}
		}
	}
	return s
}

func newUCStream(tb testing.TB, x, y *verbs.Device) (*stream, *rc.Conn) {
	c, s := connect(tb, x, y, rc.Config{Type: verbs.UC, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err := s.QP().PostRecv(make([]verbs.RecvWR, 1)); err != nil {
		tb.Fatal(err)
	}
	return streamTo(tb, c, s, verbs.OpRDMAWrite, 64<<10), s
}

// post writes n messages, the last one with immediate data, and waits until they are sent.
func (s *stream) post(tb testing.TB, n int) {
	for i := range n {
		s.wrs[0].Opcode = verbs.OpRDMAWrite
		if i == n-1 {
			s.wrs[0].Opcode = verbs.OpRDMAWriteWithImm
		}
		if err := s.conn.QP().PostSend(s.wrs); err != nil {
			tb.Error(err)
			return
		}
	}
	s.complete(tb, n)
}

// talk has many connections between two devices. One goroutine at each end handles the completions of all of them.
type talk struct {
	b    *testing.B
	x, y *talker
	size int
}

type talker struct {
	dev  *verbs.Device
	cq   *verbs.CQ
	mr   *verbs.MR
	qps  []*verbs.QP
	byNo map[uint32]*verbs.QP
}

const talkQPs, talkDepth = 16, 128

func newTalk(b *testing.B, device string, size int) *talk {
	t := &talk{b: b, x: newTalker(b, device), y: newTalker(b, device), size: size}
	t.x.connect(b, t.y)
	t.y.connect(b, t.x)
	ctx, cancel := context.WithCancel(context.Background())
	var answers sync.WaitGroup
	answers.Go(func() {
		for wcs := make([]verbs.WC, 64); ; {
			n, err := t.y.cq.Wait(ctx, wcs)
			if err != nil {
				return
			}
			t.y.received(b, wcs[:n], func(qp *verbs.QP) { t.y.send(b, qp, size) })
		}
	})
	b.Cleanup(func() {
		cancel()
		answers.Wait()
	})
	return t
}

// run makes n round trips, over one queue pair after the other.
func (t *talk) run(n, inFlight int) {
	sent := 0
	send := func() {
		if sent < n {
			t.x.send(t.b, t.x.qps[sent%talkQPs], t.size)
			sent++
		}
	}
	for range inFlight {
		send()
	}
	wcs := make([]verbs.WC, 64)
	for got := 0; got < n; {
		k, err := t.x.cq.Wait(context.Background(), wcs)
		if err != nil {
			t.b.Fatal(err)
		}
		t.x.received(t.b, wcs[:k], func(*verbs.QP) {
			got++
			send()
		})
	}
}

func newTalker(b *testing.B, device string) *talker {
	t := &talker{dev: openSoft(b, device), byNo: make(map[uint32]*verbs.QP)}
	channel := must(b, t.dev.CreateCompChannel)
	pd := must(b, t.dev.AllocPD)
	t.cq = must(b, func() (*verbs.CQ, error) {
		return t.dev.CreateCQ(verbs.CQInit{Depth: 2 * talkQPs * talkDepth, Channel: channel})
	})
	t.mr = must(b, func() (*verbs.MR, error) { return pd.AllocMR(64<<10, verbs.AccessLocalWrite) })
	b.Cleanup(func() {
		for _, qp := range t.qps {
			qp.Close()
		}
		for _, c := range []interface{ Close() error }{t.cq, channel, t.mr, pd} {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	for range talkQPs {
		qp := must(b, func() (*verbs.QP, error) {
			return pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: t.cq, RecvCQ: t.cq,
				Cap: verbs.QPCap{MaxSendWR: talkDepth, MaxRecvWR: talkDepth, MaxSendSGE: 1, MaxRecvSGE: 1}})
		})
		t.qps, t.byNo[qp.QPN()] = append(t.qps, qp), qp
	}
	return t
}

func must[T any](b *testing.B, make func() (T, error)) T {
	made, err := make()
	if err != nil {
		b.Fatal(err)
	}
	return made
}

func (t *talker) connect(b *testing.B, peer *talker) {
	gid, _, err := verbs.ChooseGID(must(b, peer.dev.QueryGIDTable), verbs.GIDSelection{})
	if err != nil {
		b.Fatal(err)
	}
	for i, qp := range t.qps {
		m := qp.Machine(nil)
		me, other := verbs.QPEndpoint{QPN: qp.QPN(), MTU: verbs.MTU4096}, verbs.QPEndpoint{QPN: peer.qps[i].QPN(), MTU: verbs.MTU4096}
		rtr, rts := me.Connect(other, gid.To(gid.GID))
		for _, err := range []error{m.ToInit(verbs.QPAttr{PortNum: 1}), m.ToRTR(rtr), m.ToRTS(rts)} {
			if err != nil {
				b.Fatal(err)
			}
		}
		for range talkDepth {
			t.recv(b, qp)
		}
	}
}

func (t *talker) send(b *testing.B, qp *verbs.QP, size int) {
	if err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{t.mr.SGE(0, size)}}}); err != nil {
		b.Error(err)
	}
}

func (t *talker) recv(b *testing.B, qp *verbs.QP) {
	if err := qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{t.mr.SGE(0, t.mr.Len())}}}); err != nil {
		b.Error(err)
	}
}

// received calls then for each message that completed.
func (t *talker) received(b *testing.B, wcs []verbs.WC, then func(*verbs.QP)) {
	for _, wc := range wcs {
		if err := wc.Err(); err != nil {
			b.Error(err)
		} else if wc.Opcode == verbs.WCRecv {
			t.recv(b, t.byNo[wc.QPN])
			then(t.byNo[wc.QPN])
		}
	}
}
