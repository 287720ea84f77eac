package link

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestMonitorTimer checks that the timer runs while there are raw calls, and stops afterwards.
func TestMonitorTimer(t *testing.T) {
	m := monitor
	stopped := func() { testkit.Until(t, "end of the timer without calls", func() bool { return !m.running.Load() }) }
	for range 2 {
		stopped()
		for range 5 {
			m.keep()
			testkit.Until(t, "timer that runs after a call, or has run", func() bool { return m.running.Load() || !m.needed.Load() })
			time.Sleep(monitorTick / 2)
		}
	}
	stopped()
}
