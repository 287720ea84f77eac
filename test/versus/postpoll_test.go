//go:build rdma

package versus

import (
	"fmt"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// BenchmarkPostPoll posts a batch and polls until it has completed, in turns with
// postpoll.c.
func BenchmarkPostPoll(b *testing.B) {
	inC, device := compile(b), deviceName(b)
	for _, batch := range batches {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			e := newEnds(b, device, batch, verbs.PostAuto, 4096)
			for range b.N {
				turns := alternate(
					func() turn { return e.turn(b, spin) },
					func() turn { return e.turnInC(b, inC, device, "spin") })
				report(b, "post-Go/C", turns[0], turns[1], posts)
				report(b, "post+poll-Go/C", turns[0], turns[1], wholes)
				b.ReportMetric(median(each(turns[0], wholes))/float64(batch), "ns/WR-Go")
				b.ReportMetric(median(each(turns[1], wholes))/float64(batch), "ns/WR-C")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPostPath compares the two ways to post sends.
func BenchmarkPostPath(b *testing.B) {
	device := deviceName(b)
	for _, batch := range batches {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			classic, builder := newEnds(b, device, batch, verbs.PostClassic, 4096), newEnds(b, device, batch, verbs.PostWRAPI, 4096)
			for range b.N {
				turns := alternate(
					func() turn { return builder.turn(b, spin) },
					func() turn { return classic.turn(b, spin) })
				report(b, "post-builder/classic", turns[0], turns[1], posts)
				report(b, "post+poll-builder/classic", turns[0], turns[1], wholes)
				b.ReportMetric(median(each(turns[0], posts))/float64(batch), "ns/WR-builder")
				b.ReportMetric(median(each(turns[1], posts))/float64(batch), "ns/WR-classic")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkWaitWake posts a batch and waits until it has completed, without spinning. It
// compares CQ.Wait, which holds no thread, with the two ways of postpoll.c to let a thread
// wait.
func BenchmarkWaitWake(b *testing.B) {
	inC, device := compile(b), deviceName(b)
	for _, batch := range batches {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			e := newEnds(b, device, batch, verbs.PostAuto, 4096)
			for range b.N {
				turns := alternate(
					func() turn { return e.turn(b, wait) },
					func() turn { return e.turnInC(b, inC, device, "block") },
					func() turn { return e.turnInC(b, inC, device, "poll") })
				report(b, "post+wait-Go/C-blocking", turns[0], turns[1], wholes)
				report(b, "post+wait-Go/C-poll(2)", turns[0], turns[2], wholes)
				b.ReportMetric(median(each(turns[0], wholes))/float64(batch), "ns/WR-Go")
				b.ReportMetric(median(each(turns[1], wholes))/float64(batch), "ns/WR-C")
				b.ReportMetric(median(each(turns[1], waits)), "waits/round-C")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestAllocatesNothing counts the allocations of the whole process.
func TestAllocatesNothing(t *testing.T) {
	device := deviceName(t)
	for _, batch := range batches {
		for _, path := range []verbs.PostPath{verbs.PostClassic, verbs.PostWRAPI} {
			for name, get := range map[string]poller{"polling": spin, "waiting": wait} {
				e := newEnds(t, device, batch, path, 4096)
				e.round(t, get)
				if n := testkit.Allocations(t, 50, func() { e.round(t, get) }); n != 0 {
					t.Errorf("posting %d (%v) and %s: %v allocations per round", batch, path, name, n)
				}
			}
		}
	}
}
