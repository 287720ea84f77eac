package verbs

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"weak"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/closing"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestCloseUnderReaders closes a region a thousand times while goroutines read and write its memory.
// They continue after Close. No goroutine may fault, see another region's bytes or change them.
func TestCloseUnderReaders(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	const size, outlive = 8 << 10, 4
	var all sync.WaitGroup
	var late []*atomic.Bool
	defer func() {
		for _, stop := range late {
			stop.Store(true)
		}
		all.Wait()
	}()
	for round := range 1000 {
		mr := must[*MR](t)(pd.AllocMR(size, AccessLocalWrite))
		b, mark := mr.Bytes(), byte(1+round%255)
		if !bytes.Equal(b, make([]byte, size)) {
			t.Fatalf("region %d is not zeroed", round)
		}
		for i := range b {
			b[i] = mark
		}
		stop := new(atomic.Bool)
		late = append(late, stop)
		var began sync.WaitGroup
		forever := func(f func()) {
			began.Add(1)
			all.Go(func() {
				f()
				began.Done()
				for !stop.Load() {
					f()
					time.Sleep(10 * time.Microsecond)
				}
			})
		}
		for _, get := range []func() []byte{mr.Bytes, func() []byte { return b }} {
			forever(func() {
				for i, half := 0, get()[:size/2]; i < len(half); i += 64 {
					if half[i] != mark {
						t.Errorf("a reader of region %d found %#x, want %#x", round, half[i], mark)
						stop.Store(true)
					}
				}
			})
		}
		forever(func() {
			for i := size / 2; i < size; i += 64 {
				b[i] = mark
			}
		})
		began.Wait()
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
		if len(late) > outlive {
			late[0].Store(true)
			late = late[1:]
		}
		if t.Failed() {
			break
		}
	}
}

// TestClosedRegionsAreCollected checks that memory of closed regions does not add up.
func TestClosedRegionsAreCollected(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	const size, count = 1 << 20, 100
	var collected atomic.Int32
	for range count {
		mr := must[*MR](t)(pd.AllocMR(size, AccessLocalWrite))
		runtime.AddCleanup(&mr.Bytes()[0], func(int32) { collected.Add(1) }, 0)
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "collection of all regions", func() bool {
		runtime.GC()
		return collected.Load() == count
	}, func() string { return fmt.Sprintf("%d of %d are collected", collected.Load(), count) })
}

// TestAClosedRegionHoldsNothing: a program may keep a region that it has closed. What asked for news of the Close is
// called once, and collected.
func TestAClosedRegionHoldsNothing(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	mr := must[*MR](t)(pd.AllocMR(64, 0))
	called, owner := 0, new([4096]byte)
	collectable := weak.Make(owner)
	closing.OnClose(mr, func() { called += 1 + int(owner[0]) })
	for range 2 {
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if called != 1 {
		t.Errorf("called %d times", called)
	}
	testkit.Until(t, "collection of what the region called", func() bool { runtime.GC(); return collectable.Value() == nil })
	runtime.KeepAlive(mr)
}

// TestTooMuchMemoryIsAnError checks that AllocMR returns an error where Go would end the program.
func TestTooMuchMemoryIsAnError(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	for _, size := range []int{math.MaxInt - 1<<21, math.MaxInt} {
		for name, options := range map[string]MROptions{"": {}, "huge pages": {HugePages: true}} {
			if _, err := pd.AllocMRWith(size, AccessLocalWrite, options); !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.ENOTSUP) {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
		}
	}
}
