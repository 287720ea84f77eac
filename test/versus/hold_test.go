//go:build rdma

package versus

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// BenchmarkHold measures how long a post takes, and how long it delays a goroutine that
// stops the world at that time. It reports the medians and the 95th percentiles. Posts above
// the limits of package verbs (briefWRs, briefBytes) go through cgo and delay no goroutine.
func BenchmarkHold(b *testing.B) {
	for _, c := range []struct{ batch, size int }{{1, 8}, {4, 8}, {16, 8}, {64, 8}, {64, 256}, {1, 16 << 10}, {65, 8}, {256, 8}, {1, 64 << 10}, {1, 1 << 20}, {16, 64 << 10}} {
		b.Run(fmt.Sprintf("batch=%d/bytes=%d", c.batch, c.size), func(b *testing.B) {
			e := newEnds(b, deviceName(b), c.batch, verbs.PostAuto, 2*c.size)
			for i := range e.wrs {
				e.wrs[i] = verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(0, c.size)},
					RemoteAddr: e.mr.Addr() + uint64(c.size), RKey: e.mr.RKey()}
			}
			posts, idle, stops := make([]time.Duration, 0, rounds), make([]time.Duration, 0, rounds), []time.Duration{}
			stop := func() time.Duration {
				var stats runtime.MemStats
				began := time.Now()
				runtime.ReadMemStats(&stats)
				return time.Since(began)
			}
			for range rounds {
				idle = append(idle, stop())
				var post sync.WaitGroup
				posting := make(chan struct{})
				post.Go(func() {
					close(posting)
					began := time.Now()
					must(b, e.qp.PostSend(e.wrs))
					posts = append(posts, time.Since(began))
				})
				<-posting
				stops = append(stops, stop())
				post.Wait()
				for done := 0; done < c.batch; {
					n, err := spin(e)
					must(b, err)
					for i := range e.wcs[:n] {
						must(b, e.wcs[i].Err())
					}
					done += n
				}
			}
			report := func(what string, took []time.Duration) {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, what+"-µs")
				b.ReportMetric(float64(took[len(took)*19/20].Nanoseconds())/1e3, what+"-p95-µs")
			}
			report("post", posts)
			report("stop", stops)
			report("idle-stop", idle)
		})
	}
}
