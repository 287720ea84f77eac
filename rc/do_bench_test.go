package rc

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// BenchmarkRequest compares Do with a post and a wait by hand: a WRITE of 8 bytes each.
func BenchmarkRequest(b *testing.B) {
	c, _, remote := doPair(b, Config{}, Config{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	wrs := []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: remote.Addr, RKey: remote.RKey}}
	b.Run("raw", func(b *testing.B) {
		var wcs [1]verbs.WC
		b.ReportAllocs()
		for b.Loop() {
			if err := c.QP().PostSend(wrs); err != nil {
				b.Fatal(err)
			}
			if _, err := c.QP().SendCQ().Wait(ctx, wcs[:]); err != nil || wcs[0].Status != verbs.WCSuccess {
				b.Fatal(wcs[0], err)
			}
		}
	})
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Do(ctx, &wrs[0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Write(ctx, c.mr.Slice(0, 8), remote, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw with a deadline each", func(b *testing.B) {
		var wcs [1]verbs.WC
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			if err := c.QP().PostSend(wrs); err != nil {
				b.Fatal(err)
			}
			if _, err := c.QP().SendCQ().Wait(ctx, wcs[:]); err != nil || wcs[0].Status != verbs.WCSuccess {
				b.Fatal(wcs[0], err)
			}
			cancel()
		}
	})
	b.Run("Do with a deadline each", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			if _, err := c.Do(ctx, &wrs[0]); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	})
	b.Run("Do of many", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Do(ctx, &wrs[0]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkDoBesideRaw runs Do, and a post and a wait by hand, in turns, so that a busy host slows both
// alike. It reports the ratio of their times.
func BenchmarkDoBesideRaw(b *testing.B) {
	c, _, remote := doPair(b, Config{}, Config{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	wrs := []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: remote.Addr, RKey: remote.RKey}}
	var wcs [1]verbs.WC
	const turn = 200
	var raw, do []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		for range turn {
			if err := c.QP().PostSend(wrs); err != nil {
				b.Fatal(err)
			}
			if _, err := c.QP().SendCQ().Wait(ctx, wcs[:]); err != nil || wcs[0].Status != verbs.WCSuccess {
				b.Fatal(wcs[0], err)
			}
		}
		middle := time.Now()
		for range turn {
			if _, err := c.Do(ctx, &wrs[0]); err != nil {
				b.Fatal(err)
			}
		}
		raw, do = append(raw, middle.Sub(began)), append(do, time.Since(middle))
	}
	slices.Sort(raw)
	slices.Sort(do)
	middle := len(raw) / 2
	b.ReportMetric(float64(raw[middle].Nanoseconds())/turn, "raw-ns/op")
	b.ReportMetric(float64(do[middle].Nanoseconds())/turn, "Do-ns/op")
	b.ReportMetric(float64(do[middle])/float64(raw[middle]), "ratio")
}
