// The transition table, row by row, generated from qpstate.
//
// For each type and each legal move there are up to three cases: the move with its required
// bits and with each optional bit; the move without one of its required bits; the move with a
// superfluous bit. For each type and state, one more case tries all moves that the table does
// not have. The device must agree with qpstate, bit by bit.

package verbstest

import (
	"fmt"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

func transitionCases() []Case {
	var cases []Case
	for _, typ := range qpstate.Types() {
		for _, move := range qpstate.Transitions(typ) {
			if typ == verbs.RC && move.From == qpstate.SQE {
				continue // an RC queue pair never enters this state
			}
			name := typ.Name() + " " + move.Name()
			cases = append(cases, Case{"transition", name, func(e *Env) { legal(e, move) }})
			if move.Required != 0 {
				cases = append(cases, Case{"transition", name + ", a required bit missing", func(e *Env) { missing(e, move) }})
			}
			cases = append(cases, Case{"transition", name + ", a bit too many", func(e *Env) { superfluous(e, move) }})
		}
		for _, from := range qpstate.States() {
			if typ == verbs.RC && from == qpstate.SQE {
				continue
			}
			cases = append(cases, Case{"transition", typ.Name() + " " + from.Name() + "→any other state is refused", func(e *Env) { impossible(e, typ, from) }})
		}
	}
	for _, typ := range qpstate.Types() {
		cases = append(cases,
			Case{"transition", typ.Name() + ", RATE_LIMIT is for raw packets only", func(e *Env) {
				t := newTraveller(e, typ, qpstate.Init)
				e.fails(t.try(qpstate.RTR, qpstate.MaskRateLimit|required(typ, qpstate.Init, qpstate.RTR)), "INIT→RTR", syscall.EINVAL, syscall.EOPNOTSUPP)
			}},
			Case{"transition", typ.Name() + ", without STATE the state stays", func(e *Env) {
				t := newTraveller(e, typ, qpstate.Init)
				e.ok(t.qp.Modify(&verbs.QPAttr{State: qpstate.RTR}, 0), "Modify of nothing")
				t.is(qpstate.Init)
			}})
	}
	return append(cases,
		Case{"transition", "ALT_PATH is refused on Ethernet", func(e *Env) {
			if e.port().LinkLayer != verbs.LinkEthernet {
				return
			}
			t := newTraveller(e, verbs.RC, qpstate.Init)
			err := t.try(qpstate.RTR, required(verbs.RC, qpstate.Init, qpstate.RTR)|qpstate.MaskAltPath)
			e.fails(err, "INIT→RTR", syscall.EINVAL)
			t.is(qpstate.Init)
		}})
}

func required(typ verbs.QPType, from, to verbs.QPState) qpstate.Mask {
	move, _ := qpstate.Lookup(typ, from, to)
	return move.Required | qpstate.MaskState
}

// allBits has the mask bits that every device knows.
const allBits = qpstate.Mask(1<<21 - 1)

// legal makes the move with the required bits, then with each optional bit, then with all of
// them.
func legal(e *Env, move qpstate.Transition) {
	optional := move.Optional
	if e.port().LinkLayer == verbs.LinkEthernet {
		optional &^= qpstate.MaskAltPath // RoCE has no alternate path; see its own case
	}
	masks := []qpstate.Mask{0}
	if optional != 0 {
		masks = append(masks, optional)
	}
	for _, extra := range append(masks, optional.Bits()...) {
		t := newTraveller(e, move.Type, move.From)
		if err := t.try(move.To, qpstate.MaskState|move.Required|extra); err != nil {
			e.Errorf("with %s: %v", extra.Name(), err)
			continue
		}
		t.is(move.To)
	}
}

// missing tries the move without each required bit, and without all of them.
func missing(e *Env, move qpstate.Transition) {
	t := newTraveller(e, move.Type, move.From)
	for _, without := range append(move.Required.Bits(), move.Required) {
		t = t.refused(move.To, qpstate.MaskState|move.Required&^without)
	}
}

// superfluous tries the move with each bit that the row does not have.
func superfluous(e *Env, move qpstate.Transition) {
	t := newTraveller(e, move.Type, move.From)
	for _, bit := range allBits.Bits() {
		if bit&(move.Required|move.Optional|qpstate.MaskState) == 0 {
			t = t.refused(move.To, qpstate.MaskState|move.Required|bit)
		}
	}
}

// impossible tries to move to each state that cannot be reached, with no bits and with all
// possible bits.
func impossible(e *Env, typ verbs.QPType, from verbs.QPState) {
	t := newTraveller(e, typ, from)
	for _, to := range qpstate.States() {
		if _, ok := qpstate.Lookup(typ, from, to); ok {
			continue
		}
		t = t.refused(to, qpstate.MaskState)
		for _, via := range qpstate.States() {
			if move, ok := qpstate.Lookup(typ, via, to); ok && move.Required != 0 {
				t = t.refused(to, qpstate.MaskState|move.Required)
			}
		}
	}
}

// traveller is a queue pair in the state from which a move is tried.
type traveller struct {
	*end
	from verbs.QPState
}

// newTraveller returns a queue pair that is connected to itself and in the state from. The
// travellers of one case share all other objects.
func newTraveller(e *Env, typ verbs.QPType, from verbs.QPState) *traveller {
	w := wiring{typ: typ, cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}, size: 64}
	if e.first[typ] == nil {
		e.first[typ] = e.end(w)
	}
	t := &traveller{end: e.first[typ].sibling(w), from: from}
	t.attr.DestQPN = t.qp.QPN()
	for _, step := range wayTo(from) {
		if err := t.machine.Move(step, t.attr, 0); err != nil {
			e.Fatalf("on the way to %s: %v", from.Name(), err)
		}
	}
	switch from {
	case qpstate.SQE:
		t.sendErrorTo(t.end)
	case qpstate.SQD:
		t.drained()
	}
	t.is(from)
	return t
}

// wayTo returns the moves from RESET to a state. The last step to SQE is a failing send.
func wayTo(s verbs.QPState) []verbs.QPState {
	forward := []verbs.QPState{qpstate.Init, qpstate.RTR, qpstate.RTS, qpstate.SQD}
	switch s {
	case qpstate.SQE:
		return forward[:qpstate.RTS]
	case qpstate.Error:
		return []verbs.QPState{qpstate.Init, qpstate.Error}
	}
	return forward[:s]
}

// sendErrorTo posts a send that fails because of a bad lkey.
func (x *end) sendErrorTo(peer *end) {
	wr := x.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: x.sge(0, 8)}, peer)
	wr.SGL[0].LKey ^= 0x5555
	x.signaled(wr)
	x.e.status("a send without a region", x.sent(1)[0], verbs.WCLocProtErr)
}

// drained waits until the send queue is drained.
func (x *end) drained() {
	for {
		attr, err := x.qp.Query(qpstate.MaskState)
		x.e.ok(err, "Query")
		if attr.State == qpstate.SQD && !attr.SQDraining {
			return
		}
		x.e.ok(x.e.Ctx.Err(), "waiting in "+attr.State.Name()+" for the send queue to drain")
		time.Sleep(time.Millisecond)
	}
}

// is ends the case unless the queue pair is in the state.
func (t *traveller) is(want verbs.QPState) {
	if got := t.state(); got != want {
		t.e.Fatalf("the queue pair is in %s, want %s", got.Name(), want.Name())
	}
}

// try makes a move with good values for all attributes.
func (t *traveller) try(to verbs.QPState, mask qpstate.Mask) error {
	attr := t.attr
	attr.State, attr.CurState, attr.Cap = to, t.from, t.qp.Cap()
	return t.qp.Modify(&attr, mask)
}

// refused tries a move that the table forbids. The device must return EINVAL, the error must
// agree with the table, and the state must not change. It returns the traveller to continue
// with, which is a new one if the device made the move.
func (t *traveller) refused(to verbs.QPState, mask qpstate.Mask) *traveller {
	what := fmt.Sprintf("%s %s→%s with %s", t.qp.Type().Name(), t.from.Name(), to.Name(), mask.Name())
	want := qpstate.Check(t.qp.Type(), t.from, to, mask)
	if want == nil {
		t.e.Fatalf("%s is legal, so the case is wrong", what)
	}
	err := t.try(to, mask)
	if err == nil {
		t.e.Errorf("%s succeeded, but the table says: %v", what, want)
		return newTraveller(t.e, t.qp.Type(), t.from)
	}
	var got *qpstate.TransitionError
	if !errors.Is(err, syscall.EINVAL) || !errors.As(err, &got) || got.Error() != want.Error() {
		t.e.Errorf("%s: got %v, want %v", what, err, want)
	}
	t.is(t.from)
	return t
}
