package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestUnprovenPeer checks what a host gets whose address a stranger gave: four packets, and then
// one per retry. The host's first acknowledgement opens the window.
func TestUnprovenPeer(t *testing.T) {
	o := defaults()
	net, a, b := pair(t, 1, o)
	sent := 0
	net.tap = func(from, _ *simnode, _ []byte) bool { sent++; return false }
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.transmit()
	if sent != unprovenWindow {
		t.Errorf("%d packets before any acknowledgement, want %d", sent, unprovenWindow)
	}
	a.want(a.scq, 0, verbs.WCRetryExcErr, 0)
	if want := unprovenWindow + int(o.retry); sent != want {
		t.Errorf("%d packets until RETRY_EXC_ERR, want %d", sent, want)
	}

	net, a, b = pair(t, 1, o)
	w := net.watch(a.node)
	a.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 60<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	net.transmit()
	if len(w.packets) != unprovenWindow {
		t.Fatalf("%d packets before any acknowledgement, want %d", len(w.packets), unprovenWindow)
	}
	net.settle()
	if len(w.packets) != 60 {
		t.Errorf("%d packets after the acknowledgement, want all 60", len(w.packets))
	}
}

// TestWindowAfterGap checks what a loss leaves of the window if all packets behind it are sent again: the part
// that does not wait in queues, and at least half. A second loss within the window halves it.
func TestWindowAfterGap(t *testing.T) {
	for _, c := range []struct {
		trips []time.Duration
		want  int64
	}{
		{nil, 50},
		{[]time.Duration{100, 100, 100}, 100},
		{[]time.Duration{100, 180}, 90}, // a mean of 110
		{[]time.Duration{100, 900, 900, 900}, 50},
	} {
		w := window{packets: 100, limit: 1000, proven: true, sinceCut: 100}
		var trip roundTrip
		for _, sample := range c.trips {
			trip.add(sample)
		}
		w.loseAll(&trip)
		if w.packets != c.want || w.threshold != c.want {
			t.Errorf("round trips %v: %d packets, and grows slowly from %d on, want %d", c.trips, w.packets, w.threshold, c.want)
		}
		if w.loseAll(&trip); w.packets != c.want/2 {
			t.Errorf("round trips %v: %d packets after a second loss, want %d", c.trips, w.packets, c.want/2)
		}
	}
}
