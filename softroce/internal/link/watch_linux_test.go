package link

import (
	"net/netip"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	w := NewWatch()
	defer w.Close()
	// The kernel's notes of an address may come after the address can be used.
	settle := func() {
		for quiet := 0; quiet < 5; time.Sleep(20 * time.Millisecond) {
			quiet++
			if w.Changed() {
				quiet = 0
			}
		}
	}
	for i, n := range []int{1, 100, 1} { // there is no room for a hundred notes
		settle()
		for j := range n {
			giveLinkLocal(t, "lo", netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 14: byte(i + 1), 15: byte(j)}))
		}
		for deadline := time.Now().Add(5 * time.Second); !w.Changed(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d addresses more, and no change", n)
			}
		}
	}
	settle()
	if n := testing.AllocsPerRun(100, func() { w.Changed() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	w.Close()
	if !w.Changed() {
		t.Error("a closed watch knows that nothing has changed")
	}
}
