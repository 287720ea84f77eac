//go:build rdma && rxe

package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// load is what a round of a stream sends.
type load struct {
	bytes    int // per message
	inFlight int // messages
	messages int // per round
}

// large keeps either device busy.
var large = load{mib, 4, 16}

// BenchmarkWRITE compares the bandwidth of 1 MiB WRITEs between two soft devices with that of
// rxe0 to itself, in turns, and reports the ratio. Both use a loopback. rxe0's path MTU is
// 1024, because its interface has an MTU of 1500.
func BenchmarkWRITE(b *testing.B) {
	rxe := open(b, here, "rxe0")
	a, c := connect(b, "127.0.0.1:0", rc.Config{Device: rxe}, rc.Config{Device: rxe}, here, mib)
	kernel := newStream(a, c, large)
	for _, mtu := range []int{1024, 4096} {
		b.Run(fmt.Sprintf("soft-MTU-%d", mtu), func(b *testing.B) {
			x, y := open(b, inPeer, "soft0"), open(b, inPeer, "soft0")
			a, c := connect(b, "127.0.0.1:0", rc.Config{Device: x, MTU: mtu}, rc.Config{Device: y, MTU: mtu}, here, mib)
			soft := newStream(a, c, large)
			ratio(b, soft, kernel)
		})
	}
}

// BenchmarkLossy compares WRITEs from the soft device to rxe0 with those from rxe0 to the soft device,
// over a pair of interfaces that loses packets in both directions. The case without loss shows how much
// of a ratio is due to losses.
func BenchmarkLossy(b *testing.B) {
	for _, loss := range []string{"0%", "0.1%", "1%"} {
		for _, l := range []load{large, {64 << 10, 1, 200}, {4 << 10, 1, 1000}} {
			b.Run(fmt.Sprintf("%s/%d-bytes-%d-in-flight", loss, l.bytes, l.inFlight), func(b *testing.B) { lossy(b, loss, l) })
		}
	}
}

func lossy(b *testing.B, loss string, l load) {
	for _, tc := range []string{"tc qdisc %s dev veth0 root netem loss %s", "ip netns exec peer tc qdisc %s dev veth1 root netem loss %s"} {
		system(b, fmt.Sprintf(tc, "add", loss))
		b.Cleanup(func() { system(b, fmt.Sprintf(tc, "del", loss)) })
	}
	kernel, soft := open(b, here, "rxe0"), open(b, inPeer, "soft:veth1")
	x, y := connect(b, paths["IPv4"], rc.Config{Device: kernel}, rc.Config{Device: soft}, inPeer, mib)
	ratio(b, newStream(y, x, l), newStream(x, y, l))
}

// ratio times rounds of two streams in turns.
func ratio(b *testing.B, soft, kernel *stream) {
	var took [2]time.Duration
	for b.Loop() {
		for i, s := range []*stream{soft, kernel} {
			begin := time.Now()
			s.run(b)
			took[i] += time.Since(begin)
		}
	}
	mb := float64(b.N*soft.messages*soft.bytes) / 1e6
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mb/took[0].Seconds(), "soft-MB/s")
	b.ReportMetric(mb/took[1].Seconds(), "rxe0-MB/s")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
}

// stream WRITEs one end's memory to the other's, again and again.
type stream struct {
	load
	from *end
	wrs  []verbs.SendWR
	wcs  [16]verbs.WC
}

func newStream(from, to *end, l load) *stream {
	return &stream{load: l, from: from, wrs: []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: sgl(from, l.bytes), RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()}}}
}

// run sends one round.
func (s *stream) run(tb testing.TB) {
	for posted, done := 0, 0; done < s.messages; {
		for ; posted < s.messages && posted-done < s.inFlight; posted++ {
			if err := s.from.QP().PostSend(s.wrs); err != nil {
				tb.Fatal(err)
			}
		}
		n, err := s.from.QP().SendCQ().Wait(context.Background(), s.wcs[:])
		if err != nil {
			tb.Fatal(err)
		}
		for _, wc := range s.wcs[:n] {
			if err := wc.Err(); err != nil {
				tb.Fatal(err)
			}
		}
		done += n
	}
}
