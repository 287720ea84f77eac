//go:build linux && netns

package host

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/host/hosttest"
)

// TestNetnsWatch: each new address of an interface is seen, however many come at once.
func TestNetnsWatch(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	w := NewWatch()
	defer w.Close()
	// The kernel's notifications may arrive after the address can already be used.
	settle := func() {
		for quiet := 0; quiet < 5; time.Sleep(20 * time.Millisecond) {
			quiet++
			if w.Changed() {
				quiet = 0
			}
		}
	}
	for i, n := range []int{1, 100, 1} { // a hundred notifications overflow the buffer
		settle()
		for j := range n {
			hosttest.GiveIPv6(t, "lo", netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 14: byte(i + 1), 15: byte(j)}))
		}
		testkit.Until(t, fmt.Sprintf("change after %d addresses more", n), w.Changed)
	}
	settle()
	if n := testing.AllocsPerRun(100, func() { w.Changed() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	waits := make(chan bool)
	wait := func() { waits <- w.Wait() }
	go wait()
	hosttest.GiveIPv6(t, "lo", netip.MustParseAddr("fe80::2"))
	if !testkit.Receive(t, waits, "end of the wait for a change") || !w.Changed() {
		t.Error("the wait has ended without a change")
	}
	settle()
	go wait()
	w.Close()
	if testkit.Receive(t, waits, "end of the wait") {
		t.Error("the wait for a change went on after Close")
	}
	if !w.Changed() {
		t.Error("a closed Watch reports no change")
	}
}
