package softroce_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestIdleCostsNothing: devices with connected queue pairs do nothing for a day after their work. TestIdle and
// TestMonitorTimer of package link check the same of the sockets; BenchmarkIdle reports the processor time.
func TestIdleCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := softroce.OpenSimulated(t)
		devices, work := []*verbs.Device{x, y}, []*atomic.Int64{softroce.CountWork(x), softroce.CountWork(y)}
		for range 10 {
			a, b := newOneEndOn(t, x), newOneEndOn(t, y)
			a.connect(b)
			b.connect(a)
			for _, way := range [][2]*oneEnd{{a, b}, {b, a}} {
				way[0].send(receiveBytes)
				way[1].want(verbs.WCSuccess)
				way[0].want(verbs.WCSuccess)
			}
		}
		idle := func(after time.Duration) (sum int64) {
			time.Sleep(after)
			synctest.Wait()
			for i, dev := range devices {
				sum += work[i].Load()
				if softroce.Led(dev) == 0 || !softroce.Receiving(dev) || softroce.TimerSet(dev) {
					t.Fatalf("device %d after %v: led %d times, its goroutine waits for packets: %v, its timer is set: %v",
						i, after, softroce.Led(dev), softroce.Receiving(dev), softroce.TimerSet(dev))
				}
			}
			return sum
		}
		before := idle(2 * testkit.Limit) // the end of a context that was waited with ends one more wait
		if n := idle(24*time.Hour) - before; before == 0 || n > 0 {
			t.Errorf("the devices have worked %d times, and %d times in a day without work", before, n)
		}
	})
}
