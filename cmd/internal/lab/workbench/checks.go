// Which check of a device a failed request has not passed, in words. A real device does not say it.

package workbench

import (
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/verbs"
)

// failedCheck returns the check that the request of a completion has failed, or "".
func (h *host) failedCheck(wc *verbs.WC) string {
	switch wc.Status {
	case verbs.WCRemAccessErr, verbs.WCRemInvReqErr, verbs.WCRemOpErr: // a NAK ended it
		for _, p := range slices.Backward(h.s.world.Packets()) {
			if p.From == h.side && p.Check != "" && p.Why.QPN == wc.QPN && p.Why.WR == wc.ID {
				return h.s.check(p)
			}
		}
	case verbs.WCLocProtErr:
		return h.localCheck(wc)
	}
	return ""
}

// localCheck returns what is wrong with the memory of this end that a request names. A completion does not say whether
// it is of a send or of a receive, so the newest request of its wr_id that fails a check counts.
func (h *host) localCheck(wc *verbs.WC) string {
	qp := h.qpOf(wc.QPN)
	if qp == nil {
		return ""
	}
	for i := range slices.Backward(h.s.actions) {
		a := &h.s.actions[i]
		post := a.Do == "post_send" || a.Do == "post_recv"
		if !post || a.Host != h.side.String() || a.Name != qp.name && !slices.Contains(qp.parents, a.Name) { // or its SRQ
			continue
		}
		for _, wr := range a.WRs {
			if uint64(wr.ID) != wc.ID {
				continue
			}
			writes := a.Do == "post_recv" || wr.Opcode == "RDMA_READ" || strings.HasPrefix(wr.Opcode, "ATOMIC_FETCH") || strings.HasPrefix(wr.Opcode, "ATOMIC_CMP")
			for _, e := range wr.SGL {
				if check := h.elementCheck(e, qp.parents[0], writes); check != "" {
					return check
				}
			}
		}
	}
	return ""
}

// elementCheck returns the check that an element fails if the device looks at it now. pd is the queue pair's.
func (h *host) elementCheck(e SGE, pd string, writes bool) string {
	o, err := h.region(e.MR)
	if err != nil {
		return ""
	}
	lkey := o.mr.LKey()
	if e.LKey != nil {
		lkey = uint32(*e.LKey)
	}
	of := slices.IndexFunc(h.objects, func(o *object) bool { return o.kind == "MR" && !o.closed && o.mr.LKey() == lkey })
	if of < 0 {
		return "no region has lkey " + hexText(lkey)
	}
	by := h.objects[of]
	at := o.mr.Addr() + uint64(e.Offset) - by.mr.Addr() // beyond its length, too, if it is before the region
	switch size := uint64(by.mr.Len()); {
	case by.parents[0] != pd:
		return "region " + by.name + " is in another PD"
	case at > size || uint64(e.Length) > size-at:
		return "outside of region " + by.name
	case writes && by.mr.Access()&verbs.AccessLocalWrite == 0:
		return "region " + by.name + " lacks LOCAL_WRITE"
	}
	return ""
}
