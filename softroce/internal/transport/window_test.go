package transport

import (
	"testing"

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
