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

// A round of a stream. Four messages in flight keep either device busy.
const (
	inFlight = 4
	messages = 16
)

// BenchmarkWRITE compares the bandwidth of 1 MiB WRITEs between two soft devices with that of
// rxe0 to itself, in turns, and reports the ratio. Both use a loopback. rxe0's path MTU is
// 1024, because its interface has an MTU of 1500.
func BenchmarkWRITE(b *testing.B) {
	rxe := open(b, here, "rxe0")
	a, c := connect(b, "127.0.0.1:0", rc.Config{Device: rxe}, rc.Config{Device: rxe}, here, mib)
	kernel := newStream(a, c)
	for _, mtu := range []int{1024, 4096} {
		b.Run(fmt.Sprintf("soft-MTU-%d", mtu), func(b *testing.B) {
			x, y := open(b, inPeer, "soft0"), open(b, inPeer, "soft0")
			a, c := connect(b, "127.0.0.1:0", rc.Config{Device: x, MTU: mtu}, rc.Config{Device: y, MTU: mtu}, here, mib)
			soft := newStream(a, c)
			ratio(b, soft, kernel)
		})
	}
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
	mb := float64(b.N*messages*mib) / 1e6
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mb/took[0].Seconds(), "soft-MB/s")
	b.ReportMetric(mb/took[1].Seconds(), "rxe0-MB/s")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
}

// stream WRITEs one end's memory to the other's, again and again.
type stream struct {
	from *end
	wrs  []verbs.SendWR
	wcs  [16]verbs.WC
}

func newStream(from, to *end) *stream {
	return &stream{from: from, wrs: []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: sgl(from, mib), RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()}}}
}

// run sends one round.
func (s *stream) run(tb testing.TB) {
	for posted, done := 0, 0; done < messages; {
		for ; posted < messages && posted-done < inFlight; posted++ {
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
