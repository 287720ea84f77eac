// What objects hold.

package simulated

import (
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// Copies of what objects hold at a moment.
type (
	// QPView is the inside of a queue pair.
	QPView = transport.QPView
	// SendView is a work request in a send queue.
	SendView = transport.SendView
	// RecvView is a posted receive.
	RecvView = transport.RecvView
	// CQView is the inside of a completion queue.
	CQView = transport.CQView
	// MWView is the inside of a memory window.
	MWView = transport.MWView
)

// InspectQP returns the inside of a queue pair; false if it is closed.
func (w *World) InspectQP(h Host, of *verbs.QP) (QPView, bool) {
	for _, q := range w.devices[h].qps {
		if q.QPN() == of.QPN() {
			return q.Inspect(), true
		}
	}
	return QPView{}, false
}

// InspectCQ returns the inside of a CQ.
func (w *World) InspectCQ(h Host, of *verbs.CQ) (v CQView) {
	for _, c := range w.devices[h].cqs {
		if verbs.ProviderOf(of) == c {
			v = c.Inspect()
		}
	}
	return v
}

// InspectSRQ returns the receives in an SRQ, the oldest first.
func (w *World) InspectSRQ(h Host, of *verbs.SRQ) (v []RecvView) {
	for _, s := range w.devices[h].srqs {
		if verbs.ProviderOf(of) == s {
			v = s.Inspect()
		}
	}
	return v
}

// InspectMW returns what a memory window opens.
func InspectMW(of *verbs.MW) MWView { return verbs.ProviderOf(of).(*transport.MW).Inspect() }

// Counters returns the engine's counters of a host that are not 0, by name.
func (w *World) Counters(h Host) map[string]uint64 {
	all := make(map[string]uint64)
	for c, name := range transport.Counters() {
		if n := w.devices[h].engine.Counter(c); n > 0 {
			all[name] = n
		}
	}
	return all
}

// Serves reports whether queue pairs of a type take a work request.
func Serves(t verbs.QPType, o verbs.Opcode) bool {
	kind := map[verbs.QPType]packet.Transport{verbs.RC: packet.RC, verbs.UC: packet.UC, verbs.UD: packet.UD}[t]
	return kind.Serves(o) || (o == verbs.OpLocalInv || o == verbs.OpBindMW) && t != verbs.UD
}

// Outcomes returns the values of Packet.Outcome, except "".
func Outcomes() []string {
	all := []string{OutcomeIP, OutcomeUDP, OutcomeICRC, OutcomeGap, OutcomeNoSuch, OutcomeInvalid, OutcomeAccess, OutcomeOperates, OutcomeRepeated}
	for c, name := range transport.Counters() {
		if telling(c) {
			all = append(all, name)
		}
	}
	return all
}
