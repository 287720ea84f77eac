package rnet

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestRestLeaves: bytes that wait for a whole message leave although the program does nothing more with
// this end, each time that it has paused.
func TestRestLeaves(t *testing.T) {
	a, b := testPair(t, Config{})
	b.SetReadDeadline(testkit.Deadline())
	r := rand.New(rand.NewPCG(1, 1))
	held := 0
	for i := 0; i < 100 || held == 0 && i < 10_000; i++ {
		n := 1 + r.IntN(defaultRing/2) // the peer has told that so much is free again
		for left := n; left > 0; {
			k := min(1+r.IntN(200<<10), left)
			if _, err := a.Write(make([]byte, k)); err != nil {
				t.Fatal(err)
			}
			left -= k
		}
		a.turn.Lock()
		if a.flow.posted < a.flow.written {
			held++
		}
		a.turn.Unlock()
		if m, err := io.CopyN(io.Discard, b, int64(n)); err != nil {
			t.Fatalf("%d of %d bytes, %v: %+v", m, n, err, a.Stats())
		}
	}
	if held == 0 {
		t.Error("nothing waited for a whole message, so nothing was tested")
	}
}

// calledProgress has no completions. It notes the waits for them, which are the progress goroutine's.
type calledProgress struct {
	background chan struct{}
	turn       *turn.Turn
}

func (c calledProgress) Turn() *turn.Turn      { return c.turn }
func (calledProgress) Handle(func([]verbs.WC)) {}
func (calledProgress) Sweep()                  {}
func (c calledProgress) Await(context.Context, context.Context, *turn.Waiter, func() bool) error {
	c.background <- struct{}{}
	return nil
}

// TestSteadyWriterIsNotHeld: small writes that are held leave after a progressDelay, although each comes before
// the one before it has waited for long, and nobody reads at this end.
func TestSteadyWriterIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := calledProgress{make(chan struct{}, 1), new(turn.Turn)}
		c := &Conn{completions: called, rc: new(rc.Conn)} // without a device; the progress goroutine is only called
		c.init()
		// steady writes four times per progressDelay. Of each write posted bytes leave at once. It returns when
		// the progress goroutine is called, or the zero time.
		steady := func(posted uint64) time.Duration {
			began := time.Now()
			for range 100 {
				c.turn.Lock()
				c.flow.written += 100
				c.flow.posted += posted
				c.ensureProgress()
				c.turn.Unlock()
				time.Sleep(progressDelay / 4)
				synctest.Wait()
				select {
				case <-called.background:
					return time.Since(began)
				default:
				}
			}
			return 0
		}
		for range 3 {
			if at := steady(0); at != progressDelay {
				t.Errorf("the progress goroutine is called after %v of steady writes, want %v", at, progressDelay)
			}
		}
		if at := steady(90); at != 0 {
			t.Errorf("the progress goroutine is called after %v, although bytes leave all the time", at)
		}
		if at := steady(0); at != progressDelay {
			t.Errorf("the progress goroutine is called %v after bytes stopped leaving, want %v", at, progressDelay)
		}
	})
}

// BenchmarkSteadyWriter prints the age of small records when they arrive, at half of them and at most. A
// record is written four times per progressDelay, and nobody reads at this end.
func BenchmarkSteadyWriter(b *testing.B) {
	from, to := testPair(b, Config{})
	const size = 100
	wrote := make(chan error, 1)
	begin := time.Now()
	go func() {
		record := make([]byte, size)
		for i := range b.N {
			for time.Since(begin) < time.Duration(i)*progressDelay/4 {
				runtime.Gosched() // a sleep would last longer than progressDelay
			}
			binary.LittleEndian.PutUint64(record, uint64(time.Since(begin)))
			if _, err := from.Write(record); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	var ages []time.Duration
	for record := make([]byte, size); len(ages) < b.N; {
		if _, err := io.ReadFull(to, record); err != nil {
			b.Fatal(err)
		}
		ages = append(ages, time.Since(begin)-time.Duration(binary.LittleEndian.Uint64(record)))
	}
	if err := <-wrote; err != nil {
		b.Error(err)
	}
	slices.Sort(ages)
	b.ReportMetric(float64(ages[b.N/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(ages[b.N-1].Microseconds()), "µs-most")
}
