package wire

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestQueue checks that events come in the order of their time, and those of one time in the order in which they were added.
func TestQueue(t *testing.T) {
	type event struct{ at, added int }
	var q Queue[event]
	var want []event
	r := rand.New(rand.NewPCG(1, 1))
	check := func() {
		t.Helper()
		slices.SortStableFunc(want, func(a, b event) int { return a.at - b.at })
		next := q.Next()
		if at, got := q.Pop(); got != want[0] || at != next || at != time.Duration(got.at) {
			t.Fatalf("%v at %v, announced for %v; want %v", got, at, next, want[0])
		}
		want = want[1:]
	}
	for i := range 2000 {
		e := event{r.IntN(50), i}
		q.Push(time.Duration(e.at), e)
		if want = append(want, e); r.IntN(3) == 0 {
			check()
		}
	}
	for len(want) > 0 {
		check()
	}
	if q.Next() != Never {
		t.Error("the empty queue has an event")
	}
}

// TestFaults checks how often each fault happens, what it does, and that the seed decides.
func TestFaults(t *testing.T) {
	const packets, spacing = 10000, time.Microsecond
	raw := bytes.Repeat([]byte{0xa5}, 64)
	for name, f := range map[string]Faults{
		"none":        {},
		"loss":        {Loss: 0.05},
		"duplication": {Duplicate: 0.05},
		"corruption":  {Corrupt: 0.05},
		"reordering":  {Reorder: 0.05, Late: 10 * time.Microsecond},
		"delay":       {Delay: 5 * time.Millisecond},
		"all":         {Loss: 0.02, Duplicate: 0.02, Corrupt: 0.02, Reorder: 0.02, Late: 10 * time.Microsecond, Delay: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(seed uint64) (got []int, s Statistics) {
				w := New[int](rand.New(rand.NewPCG(seed, 1)))
				for i := range packets {
					w.Send(time.Duration(i)*spacing, &f, i, raw)
				}
				var corrupted uint64
				for w.Next() != Never {
					at := w.Next()
					p, _ := w.Take(at)
					if _, early := w.Take(at - 1); early {
						t.Fatal("a packet can be taken before its time")
					}
					if late := at - time.Duration(p.Of)*spacing - f.Delay; late < 0 || late > f.Late {
						t.Fatalf("packet %d is %v late", p.Of, late)
					}
					wrong := 0
					for i, b := range p.Data {
						wrong += bits.OnesCount8(b ^ raw[i])
					}
					if wrong > 1 || p.Data[4] != raw[4] || len(p.Data) != len(raw) {
						t.Fatalf("%d bits are wrong, or the byte that no ICRC covers: % x", wrong, p.Data)
					}
					corrupted += uint64(wrong)
					got = append(got, p.Of)
					w.Free(p.Data)
					if again := w.Copy(raw); !bytes.Equal(again, raw) {
						t.Fatalf("a copy in a freed buffer: % x", again)
					}
				}
				if corrupted != w.Statistics.Corrupted {
					t.Errorf("%d packets are damaged, counted are %d", corrupted, w.Statistics.Corrupted)
				}
				return got, w.Statistics
			}
			got, s := run(1)
			for what, c := range map[string]struct {
				n uint64
				p float64
			}{"lost": {s.Lost, f.Loss}, "duplicated": {s.Duplicated, f.Duplicate}, "corrupted": {s.Corrupted, f.Corrupt}, "reordered": {s.Reordered, f.Reorder}} {
				if want := c.p * packets; float64(c.n) < 0.8*want || float64(c.n) > 1.2*want {
					t.Errorf("%s: %d, not about %v", what, c.n, want)
				}
			}
			if want := packets - s.Lost + s.Duplicated; s.Sent != packets || uint64(len(got)) != want {
				t.Errorf("%d packets came, want %d", len(got), want)
			}
			if slices.IsSorted(got) != (s.Reordered == 0) {
				t.Errorf("in order: %v, reordered: %d", slices.IsSorted(got), s.Reordered)
			}
			if again, s2 := run(1); s2 != s || !slices.Equal(again, got) {
				t.Errorf("the same seed: %+v, then %+v", s, s2)
			}
			if _, s3 := run(2); f.Loss > 0 && s3 == s {
				t.Errorf("another seed: %+v too", s3)
			}
		})
	}
}
