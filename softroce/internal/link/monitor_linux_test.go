package link

import (
	"testing"
	"time"
)

// TestMonitorTimer checks that the timer runs while there are raw calls, and stops afterwards.
func TestMonitorTimer(t *testing.T) {
	m := monitor
	stopped := func() bool {
		for range 100 {
			if !m.running.Load() {
				return true
			}
			time.Sleep(monitorTick)
		}
		return false
	}
	for range 2 {
		if !stopped() {
			t.Fatal("the timer runs without calls")
		}
		for range 5 {
			m.keep()
			if !m.running.Load() {
				t.Fatal("the timer does not run after a call")
			}
			time.Sleep(monitorTick / 2)
		}
	}
}
