package verbs

import (
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
)

// paperRC returns a queue pair on paper in INIT, and the attributes of its next move.
func paperRC(t *testing.T) (*QP, *paper, QPAttr) {
	t.Helper()
	d, p := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	if err := qpstate.NewMachine(RC, qp, nil).ToInit(QPAttr{PortNum: 1}); err != nil {
		t.Fatal(err)
	}
	return qp, p, QPAttr{State: qpstate.RTR, PathMTU: qpstate.MTU1024,
		AH: AHAttr{IsGlobal: true, PortNum: 1, GRH: GRH{DGID: rxeTable[1].GID, SGIDIndex: 1}}}
}

// TestModifyHintDoesNotContradictItself: the mask of INIT→RTR must not have PORT, so the hint must
// not suggest another port.
func TestModifyHintDoesNotContradictItself(t *testing.T) {
	const withPort = 0x129181 | qpstate.MaskPort
	for name, refusal := range map[string]error{
		"the kernel's EINVAL":    syscall.EINVAL,
		"the kernel's other one": syscall.EOPNOTSUPP,
		"softroce's reason":      qpstate.Check(RC, qpstate.Init, qpstate.RTR, withPort),
	} {
		for _, port := range []uint8{0, 1, 7} {
			qp, p, attr := paperRC(t)
			attr.PortNum = port
			p.refuse = refusal
			err := qp.Modify(&attr, withPort)
			says(t, err, []string{"not allowed here PORT", "take PORT out of the mask"}, "does not exist", "AH.PortNum is")
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
}

// TestModifySaysTheWay: of a move that does not exist, the hint says which moves lead there.
func TestModifySaysTheWay(t *testing.T) {
	for to, want := range map[QPState]string{
		qpstate.RTS: "INIT→RTR→RTS",
		qpstate.SQD: "INIT→RTR→RTS→SQD",
		qpstate.SQE: "no program moves a queue pair to SQE",
	} {
		qp, p, attr := paperRC(t)
		attr.State, p.refuse = to, syscall.EINVAL
		says(t, qp.Modify(&attr, qpstate.MaskState), []string{"no such transition", "try: ", want}, "GID")
	}
}

func TestModifySaysThatStateWasIgnored(t *testing.T) {
	const noState = 0x129180
	for name, refusal := range map[string]error{
		"the kernel's EINVAL": syscall.EINVAL,
		"softroce's reason":   qpstate.Check(RC, qpstate.Init, qpstate.Init, noState),
	} {
		t.Run(name, func(t *testing.T) {
			qp, p, attr := paperRC(t)
			p.refuse = refusal
			says(t, qp.Modify(&attr, noState), []string{"INIT→INIT", "put STATE into the mask: State RTR was ignored"}, "out of the mask")

			p.refuse = refusal // in addition to the wrong mask
			says(t, qp.Modify(&attr, noState&^qpstate.MaskAV|qpstate.MaskPort), []string{"State RTR was ignored", "add AV to the mask", "take PORT out of the mask"})

			// State was not meant: it is the present state, or zero.
			for _, state := range []QPState{qpstate.Init, qpstate.Reset} {
				attr.State = state
				p.refuse = refusal
				says(t, qp.Modify(&attr, noState), []string{"INIT→INIT"}, "ignored")
			}

			attr.State, p.refuse = qpstate.SQD, refusal // there is no INIT→SQD
			says(t, qp.Modify(&attr, noState), []string{"out of the mask; State SQD was ignored, because the mask lacks STATE"}, "put STATE")
		})
	}
}

// TestModifyRefusesAMaskWithoutState uses a device that accepts everything. rdma_rxe of new kernels
// accepts a mask without STATE.
func TestModifyRefusesAMaskWithoutState(t *testing.T) {
	qp, _, attr := paperRC(t)
	const rtr = 0x129181
	err := qp.Modify(&attr, rtr&^qpstate.MaskState)
	says(t, err, []string{"EINVAL", "INIT→INIT", "put STATE into the mask: State RTR was ignored"})
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("%v is not EINVAL", err)
	}
	leftOver := QPAttr{State: qpstate.RTR, Access: AccessRemoteRead}
	if err := qp.Modify(&leftOver, qpstate.MaskAccessFlags); err != nil {
		t.Errorf("a State that is left over, and a mask that INIT→INIT allows: %v", err)
	}
	if err := qp.Modify(&attr, rtr); err != nil {
		t.Errorf("with STATE: %v", err)
	}
}

func TestModifySaysThatSendsAreInFlight(t *testing.T) {
	qp, p, _ := paperRC(t)
	qp.p.(*paperQP).state, qp.p.(*paperQP).draining = qpstate.SQD, true
	const inFlight = "wait until the sends in flight are done"
	for to, nots := range map[QPState][]string{qpstate.SQD: nil, qpstate.RTS: nil, qpstate.Error: {inFlight}} {
		p.refuse = syscall.EINVAL
		err := qp.Modify(&QPAttr{State: to}, qpstate.MaskState)
		if len(nots) == 0 {
			says(t, err, []string{inFlight}, "TIMEOUT")
		} else {
			says(t, err, []string{"SQD→ERR"}, nots...)
		}
	}
}
