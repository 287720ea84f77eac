// Why a Modify was refused. The kernel returns only EINVAL; the transition table and the port's
// attributes show what is wrong.

package verbs

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
)

// explainModify makes the error of a refused Modify. It names the move, the port, both GIDs, and
// every fault that it can find. The caller is the Modify in flight. That call keeps the queue
// pair and its device open.
func (qp *QP) explainModify(attr *QPAttr, mask QPAttrMask, err error) error {
	from, to, draining := qp.state, qp.state, false
	if now, qerr := qp.p.Query(qpstate.MaskState); qerr == nil {
		from, to, draining = now.State, now.State, now.SQDraining
	}
	if mask&qpstate.MaskCurState != 0 {
		from = attr.CurState
	}
	if mask&qpstate.MaskState != 0 {
		to = attr.State
	}
	e := fail("ibv_modify_qp", qp.device, "", err).(*Error)
	e.Detail = fmt.Sprintf("QP %#06x, %s %s→%s", qp.QPN(), qp.Type().Name(), from.Name(), to.Name())
	if values := attr.Describe(mask); values != "" {
		e.Detail += ", " + values
	}
	cannot := errors.Is(err, syscall.EOPNOTSUPP) // some kernels return it for bits that no move has
	if !cannot && !errors.Is(err, syscall.EINVAL) {
		return e
	}
	asked := err
	if cannot {
		asked = syscall.EINVAL
	}
	var bits *qpstate.TransitionError
	if why := qpstate.Explain(asked, qp.Type(), from, to, mask); errors.As(why, &bits) {
		e.Err, e.Hint = why, maskHint(bits) // the values do not matter while the bits are wrong
	} else if faults := qp.faults(attr, mask); len(faults) > 0 {
		e.Hint = strings.Join(faults, "; ")
	} else if draining && from == qpstate.SQD && (to == qpstate.RTS || to == qpstate.SQD) {
		e.Hint = "wait until the sends in flight are done (IBV_EVENT_SQ_DRAINED), then move again"
	}
	if mask&qpstate.MaskState == 0 && attr.State != from && attr.State != qpstate.Reset {
		e.Hint = stateHint(qp.Type(), from, attr.State, mask, e.Hint)
	}
	return e
}

// forgotState reports whether the mask lacks STATE, though attr has a state that the queue pair
// can move to, and the table forbids the mask without STATE. The rdma_rxe of some kernels accepts
// such a call and leaves the queue pair in its state.
func (qp *QP) forgotState(attr *QPAttr, mask QPAttrMask) bool {
	if mask&(qpstate.MaskState|qpstate.MaskCurState) != 0 || attr.State == qp.state || attr.State == qpstate.Reset {
		return false
	}
	_, move := qpstate.Lookup(qp.Type(), qp.state, attr.State)
	return move && qpstate.Check(qp.Type(), qp.state, qp.state, mask) != nil
}

// stateHint makes the hint for a mask without STATE although attr has a state. If the queue pair
// can move to that state, the caller forgot STATE. Otherwise the state is left over from an
// earlier call, and hint stays.
func stateHint(t QPType, from, given QPState, mask QPAttrMask, hint string) string {
	ignored := "State " + given.Name() + " was ignored"
	if _, ok := qpstate.Lookup(t, from, given); !ok {
		return strings.TrimPrefix(hint+"; "+ignored+", because the mask lacks STATE", "; ")
	}
	var bits *qpstate.TransitionError
	if errors.As(qpstate.Check(t, from, given, mask), &bits) {
		ignored += "; for " + from.Name() + "→" + given.Name() + " also " + maskHint(bits)
	}
	return "put STATE into the mask: " + ignored
}

// maskHint says how to correct the mask of a refused move, or, if no mask is right, which moves lead there.
func maskHint(e *qpstate.TransitionError) string {
	if e.Impossible {
		switch way := wayTo(e.Type, e.From, e.To); {
		case way != "":
			return "move the queue pair in steps: " + way
		case e.To == qpstate.SQE:
			return "no program moves a queue pair to SQE: the device does, when a send of a UC or UD queue pair fails"
		}
	}
	var parts []string
	if e.Missing != 0 {
		parts = append(parts, "add "+maskNames(e.Missing)+" to the mask")
	}
	if e.Illegal != 0 {
		parts = append(parts, "take "+maskNames(e.Illegal)+" out of the mask")
	}
	return strings.Join(parts, "; ")
}

// wayTo returns the fewest moves from one state to another: "RTS→RESET→INIT". It returns "" if none lead there.
func wayTo(t QPType, from, to QPState) string {
	ways := map[QPState]string{from: from.Name()}
	for reached := []QPState{from}; len(reached) > 0; reached = reached[1:] {
		for _, next := range qpstate.States() {
			if _, ok := qpstate.Lookup(t, reached[0], next); ok && ways[next] == "" {
				ways[next] = ways[reached[0]] + "→" + next.Name()
				reached = append(reached, next)
			}
		}
	}
	return ways[to]
}

// maskNames lists the names of bits: "AV, PORT".
func maskNames(m QPAttrMask) string { return strings.ReplaceAll(m.Name(), "|", ", ") }

// faults lists the values named by mask that no device accepts on this port.
func (qp *QP) faults(attr *QPAttr, mask QPAttrMask) []string {
	var found []string
	wrong := func(when bool, format string, args ...any) {
		if when {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	has := func(bit QPAttrMask) bool { return mask&bit != 0 }

	const low24 = 1<<24 - 1
	wrong(has(qpstate.MaskRQPSN) && attr.RQPSN > low24, "RQ_PSN %#x has more than 24 bits", attr.RQPSN)
	wrong(has(qpstate.MaskSQPSN) && attr.SQPSN > low24, "SQ_PSN %#x has more than 24 bits", attr.SQPSN)
	wrong(has(qpstate.MaskDestQPN) && attr.DestQPN > low24, "DEST_QPN %#x has more than 24 bits", attr.DestQPN)
	wrong(has(qpstate.MaskRetryCnt) && attr.RetryCnt > 7, "RETRY_CNT %d is above 7", attr.RetryCnt)
	wrong(has(qpstate.MaskRNRRetry) && attr.RNRRetry > 7, "RNR_RETRY %d is above 7", attr.RNRRetry)
	wrong(has(qpstate.MaskTimeout) && attr.Timeout > 31, "TIMEOUT %d is above 31", attr.Timeout)
	wrong(has(qpstate.MaskMinRNRTimer) && attr.MinRNRTimer > 31, "MIN_RNR_TIMER %d is above 31", attr.MinRNRTimer)

	if device, err := qp.dev.p.QueryDevice(); err == nil {
		wrong(has(qpstate.MaskPort) && (attr.PortNum < 1 || int(attr.PortNum) > device.PhysPortCnt),
			"PORT %d does not exist: %s has ports 1 to %d", attr.PortNum, qp.device, device.PhysPortCnt)
		wrong(has(qpstate.MaskMaxDestRdAtomic) && int(attr.MaxDestRdAtomic) > device.MaxQPRdAtom,
			"MAX_DEST_RD_ATOMIC %d is above the device's %d", attr.MaxDestRdAtomic, device.MaxQPRdAtom)
		wrong(has(qpstate.MaskMaxRdAtomic) && int(attr.MaxRdAtomic) > device.MaxQPInitRdAtom,
			"MAX_QP_RD_ATOMIC %d is above the device's %d", attr.MaxRdAtomic, device.MaxQPInitRdAtom)
	}
	n := qp.port
	if has(qpstate.MaskPort) {
		n = attr.PortNum // the queue pair was not bound
	}
	port, err := qp.dev.p.QueryPort(n)
	if n == 0 || err != nil {
		return found
	}
	wrong(has(qpstate.MaskPathMTU) && (attr.PathMTU.Bytes() == 0 || attr.PathMTU > port.MaxMTU),
		"PATH_MTU %v is not possible on port %d (at most %d)", attr.PathMTU, n, port.MaxMTU.Bytes())
	wrong(has(qpstate.MaskPKeyIndex) && int(attr.PKeyIndex) >= port.PKeyTableLen,
		"PKEY_INDEX %d is beyond the port's table of %d", attr.PKeyIndex, port.PKeyTableLen)
	if has(qpstate.MaskAV) {
		found = append(found, qp.pathFaults(&attr.AH, port)...)
	}
	return found
}

// pathFaults lists the faults in the path to the peer.
func (qp *QP) pathFaults(ah *AHAttr, port PortAttr) []string {
	var found []string
	if ah.PortNum != qp.port {
		found = append(found, fmt.Sprintf("AH.PortNum is %d, but the queue pair was bound to port %d at INIT", ah.PortNum, qp.port))
	}
	if port.LinkLayer != LinkEthernet {
		return found
	}
	if !ah.IsGlobal {
		return append(found, "on RoCE the path needs AH.IsGlobal, GRH.DGID and GRH.SGIDIndex")
	}
	if ah.GRH.DGID.IsZero() {
		found = append(found, "the peer's GID (GRH.DGID) is all zero")
	}
	table, err := qp.dev.p.QueryGIDTable()
	if err != nil {
		return found
	}
	for _, entry := range table {
		if entry.Port == qp.port && entry.Index == int(ah.GRH.SGIDIndex) {
			if mine, peers := gidFamily(entry.GID), gidFamily(ah.GRH.DGID); mine != peers {
				found = append(found, fmt.Sprintf("GID %d here is %s (%s), and the peer's %s is %s: take GIDs of one family at both ends",
					entry.Index, entry.GID, mine, ah.GRH.DGID, peers))
			}
			return found
		}
	}
	return append(found, fmt.Sprintf("GID index %d is an empty slot; the table has %s", ah.GRH.SGIDIndex, gidList(table, qp.port)))
}
