// Tests of devices whose addresses have several sockets.

package softroce_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/verbstest"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

func TestConformanceWithShards(t *testing.T) {
	softroce.SetShards(t, 4)
	verbstest.Run(t, "soft0", verbstest.Quirks(t, "soft0"))
}

// TestShards sends over many queue pairs of UC at once, in both directions. Each packet must go to the socket of its queue
// pair. If packets of one queue pair came by several sockets, their order would change, and messages would be lost.
func TestShards(t *testing.T) {
	const shards, qps, messages, size = 4, 16, 200, 10_000
	softroce.SetShards(t, shards)
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	var all sync.WaitGroup
	for range qps {
		a, b := connect(t, x, y, rc.Config{Type: verbs.UC, Cap: verbs.QPCap{MaxSendWR: messages, MaxRecvWR: messages, MaxSendSGE: 1, MaxRecvSGE: 1}})
		for _, dir := range [][2]*rc.Conn{{a, b}, {b, a}} {
			from, to := newMessages(t, dir[0], messages, size), newMessages(t, dir[1], messages, size)
			for i := range messages {
				if err := to.conn.QP().PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{to.mr.SGE(i*size, size)}}}); err != nil {
					t.Fatal(err)
				}
			}
			all.Go(func() { from.send(t) })
			all.Go(func() { to.receive(t) })
		}
	}
	all.Wait()
	for _, d := range []*verbs.Device{x, y} {
		received := softroce.ReceivedBySocket(d)
		idle := func(n uint64) bool { return n == 0 }
		if busy := len(slices.DeleteFunc(slices.Clone(received), idle)); busy < 2 || len(received) != shards {
			t.Errorf("packets by socket: %v, want %d sockets, most of them busy", received, shards)
		}
	}
}

// messages is memory for messages of one size, which go from one end of a connection to the other.
type messages struct {
	conn    *rc.Conn
	mr      *verbs.MR
	n, size int
}

func newMessages(t *testing.T, c *rc.Conn, n, size int) *messages {
	mr, err := c.AllocMR("messages", n*size, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	return &messages{c, mr, n, size}
}

// length returns the length of message i. Most are of one size, so that packets of several queue pairs could share a burst.
func (m *messages) length(i int) int {
	if i%10 == 9 {
		return m.size
	}
	return 64
}

func (m *messages) send(t *testing.T) {
	for i := range m.n {
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{m.mr.SGE(i*m.size, m.length(i))}}
		if err := m.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Error(err)
			return
		}
	}
	if _, err := m.conn.QP().SendCQ().Wait(t.Context(), make([]verbs.WC, m.n)); err != nil {
		t.Error(err)
	}
}

func (m *messages) receive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	wcs := make([]verbs.WC, m.n)
	for got := 0; got < m.n; {
		n, err := m.conn.QP().RecvCQ().Wait(ctx, wcs)
		if err != nil {
			t.Errorf("%d of %d messages: %v", got, m.n, err)
			return
		}
		for _, wc := range wcs[:n] {
			if wc.Err() != nil || wc.ID != uint64(got) || int(wc.ByteLen) != m.length(got) {
				t.Errorf("message %d: %v", got, wc)
				return
			}
			got++
		}
	}
}

// TestOneSocket checks which devices have one socket per address: those with small receive buffers, and those that are
// attended.
func TestOneSocket(t *testing.T) {
	softroce.SetShards(t, 4)
	if n := len(softroce.ReceivedBySocket(openSoft(t, softroce.SmallBufferName))); n != 1 {
		t.Errorf("a small buffer: %d sockets", n)
	}
	attended, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	defer attended.Close()
	if _, err := attended.Provider().(interface{ Attend(*int32) (int, error) }).Attend(new(int32)); err != nil {
		t.Fatal(err)
	}
	if n := len(softroce.ReceivedBySocket(attended)); n != 1 {
		t.Errorf("attended: %d sockets", n)
	}
}

// BenchmarkShards measures what two processors gain if an address has two sockets instead of one: in the receiver alone, and in the
// sender alone. So it needs two processors, not four.
//
//   - receive: the sender fills the sockets first. The time is that from the first receive to the last completion.
//   - send: two goroutines post, and nobody receives. The kernel drops what does not fit into the sockets.
func BenchmarkShards(b *testing.B) {
	const messages = 32 // of 64 KiB, on each of two queue pairs: the receive buffer holds them
	b.Run("receive", func(b *testing.B) {
		one, two := newShardsBench(b, 1, 1), newShardsBench(b, 1, 2)
		compareShards(b, messages, func(s *shardsBench) time.Duration {
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
		one, two := newShardsBench(b, 1, 1), newShardsBench(b, 2, 1)
		for _, s := range []*shardsBench{one, two} {
			defer softroce.HoldReceivers(s.y)()
		}
		compareShards(b, messages, func(s *shardsBench) time.Duration {
			began := time.Now()
			var posters sync.WaitGroup
			for _, st := range s.streams {
				posters.Go(func() { st.post(b, messages) })
			}
			posters.Wait()
			return time.Since(began)
		}, one, two)
	})
}

// compareShards runs a round of both benches in turns.
func compareShards(b *testing.B, messages int, round func(*shardsBench) time.Duration, one, two *shardsBench) {
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

// shardsBench has two connections of UC between two devices, whose queue pairs are of different shards.
type shardsBench struct {
	x, y    *verbs.Device
	streams []*stream
	peers   []*rc.Conn // at y
}

func newShardsBench(b *testing.B, shardsOfX, shardsOfY int) *shardsBench {
	s := &shardsBench{}
	softroce.SetShards(b, shardsOfX)
	s.x = openSoft(b, "soft0")
	softroce.SetShards(b, shardsOfY)
	s.y = openSoft(b, "soft0")
	softroce.WithoutRoom(s.x)
	for shard := range uint32(2) {
		for {
			st, peer := newUCStream(b, s.x, s.y)
			if (shardsOfX == 1 || st.conn.QP().QPN()%2 == shard) && (shardsOfY == 1 || peer.QP().QPN()%2 == shard) {
				s.streams, s.peers = append(s.streams, st), append(s.peers, peer)
				break
			}
		}
	}
	softroce.SetTraffic(s.y, false)
	return s
}

func newUCStream(b *testing.B, x, y *verbs.Device) (*stream, *rc.Conn) {
	const size = 64 << 10
	c, s := connect(b, x, y, rc.Config{Type: verbs.UC, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
	st := &stream{conn: c, wcs: make([]verbs.WC, 64)}
	var err error
	if st.mr, err = c.AllocMR("stream", size, all); err != nil {
		b.Fatal(err)
	}
	if st.remote, err = s.AllocMR("stream", size, all); err != nil {
		b.Fatal(err)
	}
	st.wrs = []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{st.mr.SGE(0, size)},
		RemoteAddr: st.remote.Addr(), RKey: st.remote.RKey()}}
	if err := s.QP().PostRecv(make([]verbs.RecvWR, 1)); err != nil {
		b.Fatal(err)
	}
	return st, s
}

// post writes n messages, the last one with immediate data, and waits until they are sent.
func (s *stream) post(b *testing.B, n int) {
	for i := range n {
		s.wrs[0].Opcode = verbs.OpRDMAWrite
		if i == n-1 {
			s.wrs[0].Opcode = verbs.OpRDMAWriteWithImm
		}
		if err := s.conn.QP().PostSend(s.wrs); err != nil {
			b.Error(err)
			return
		}
	}
	s.complete(b, n)
}
