package admission

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLineIsFair fills the line from two addresses. A newcomer from a third one waits nevertheless, and
// gets the place that is free then. One more from the first address is refused at once.
func TestLineIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, ClientsPerAddress: 1, Memory: 1 << 40, MemoryPerAddress: 1 << 40, Waiting: Waiting, Patience: Patience})
		busy, err := come(ac, netip.MustParseAddr("192.0.2.9"), 1)
		must(t, busy, err).moved.Store(true)
		var strangers sync.WaitGroup
		var mu sync.Mutex
		var refusedAt []time.Duration
		began := time.Now()
		waiting := func() int {
			ac.mu.Lock()
			defer ac.mu.Unlock()
			return len(ac.line)
		}
		for i := range Waiting {
			strangers.Go(func() {
				_, err := come(ac, []netip.Addr{one, other}[i%2], 1)
				refused(t, err, "the server already has 1 clients")
				mu.Lock()
				defer mu.Unlock()
				refusedAt = append(refusedAt, time.Since(began))
			})
		}
		synctest.Wait()
		if n := waiting(); n != Waiting {
			t.Fatalf("%d wait, want %d", n, Waiting)
		}
		if _, err := come(ac, one, 1); err == nil || time.Since(began) > 0 {
			t.Errorf("one of the crowd: %v after %v, want a refusal at once", err, time.Since(began))
		}
		third := make(chan error)
		go func() {
			v, err := come(ac, netip.MustParseAddr("192.0.2.3"), 1)
			if err == nil {
				v.Leave()
			}
			third <- err
		}()
		synctest.Wait()
		mu.Lock()
		if len(refusedAt) != 1 {
			t.Errorf("%d of the crowd made way, want 1", len(refusedAt))
		}
		mu.Unlock()
		time.Sleep(Patience / 2)
		mu.Lock()
		before := len(refusedAt)
		mu.Unlock()
		if before != 1 || waiting() != Waiting {
			t.Errorf("%d were refused and %d wait", before, waiting())
		}
		time.Sleep(Patience)
		if err := <-third; err == nil {
			t.Error("a place that nobody left")
		}
		strangers.Wait()
		if n := waiting(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}
