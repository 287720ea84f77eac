// The transition table, row by row: generated from qpstate.
//
// For each type and each legal move there are up to three cases: the move itself
// with its required bits and with each optional one, the move with a required bit
// missing, the move with a bit too many. For each type and state one more tries
// every move that the table does not have. What the device says must be what
// qpstate says, bit for bit.

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
				continue // no RC queue pair comes there
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
			cases = append(cases, Case{"transition", typ.Name() + " " + from.Name() + "→ where there is no way", func(e *Env) { impossible(e, typ, from) }})
		}
	}
	for _, typ := range qpstate.Types() {
		cases = append(cases,
			Case{"transition", typ.Name() + ", RATE_LIMIT is for raw packets only", func(e *Env) {
				t := newTraveller(e, typ, qpstate.Init)
				e.fails(t.try(qpstate.RTR, qpstate.MaskRateLimit|required(typ, qpstate.Init, qpstate.RTR)), "INIT→RTR", syscall.EINVAL, syscall.EOPNOTSUPP)
			}},
			Case{"transition", typ.Name() + ", without STATE nothing moves", func(e *Env) {
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

// allBits are the bits of a mask that every device knows.
const allBits = qpstate.Mask(1<<21 - 1)

// legal makes the move with what is required, with each optional bit, and with
// all of them.
func legal(e *Env, move qpstate.Transition) {
	optional := move.Optional
	if e.port().LinkLayer == verbs.LinkEthernet {
		optional &^= qpstate.MaskAltPath // RoCE has none, see its own case
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

// missing leaves out each required bit, and all of them.
func missing(e *Env, move qpstate.Transition) {
	t := newTraveller(e, move.Type, move.From)
	for _, without := range append(move.Required.Bits(), move.Required) {
		t = t.refused(move.To, qpstate.MaskState|move.Required&^without)
	}
}

// superfluous adds each bit that the row does not have.
func superfluous(e *Env, move qpstate.Transition) {
	t := newTraveller(e, move.Type, move.From)
	for _, bit := range allBits.Bits() {
		if bit&(move.Required|move.Optional|qpstate.MaskState) == 0 {
			t = t.refused(move.To, qpstate.MaskState|move.Required|bit)
		}
	}
}

// impossible tries each state that cannot be reached from one, with no bits and
// with all that could be meant.
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

// traveller is a queue pair in the state that a move is tried from.
type traveller struct {
	*end
	from verbs.QPState
}

// newTraveller makes a queue pair, connected to itself, and takes it to a state.
// Those of one case share all but the queue pair.
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

// wayTo is the moves from RESET to a state; to SQE a failing send does the last.
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

// sendErrorTo makes a send fail, as it names no region.
func (x *end) sendErrorTo(peer *end) {
	wr := x.toIf(verbs.SendWR{Opcode: verbs.OpSend, SGL: x.sge(0, 8)}, peer)
	wr.SGL[0].LKey ^= 0x5555
	x.signaled(wr)
	x.e.status("a send without a region", x.sent(1)[0], verbs.WCLocProtErr)
}

// drained waits until the send queue has come to rest: an idle one soon does.
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

// is ends the case unless the queue pair is in a state.
func (t *traveller) is(want verbs.QPState) {
	if got := t.state(); got != want {
		t.e.Fatalf("the queue pair is in %s, want %s", got.Name(), want.Name())
	}
}

// try asks the device for a move with good values for every attribute.
func (t *traveller) try(to verbs.QPState, mask qpstate.Mask) error {
	attr := t.attr
	attr.State, attr.CurState, attr.Cap = to, t.from, t.qp.Cap()
	return t.qp.Modify(&attr, mask)
}

// refused tries a move that the table forbids. The device must say EINVAL, the
// error must say what the table says, and the queue pair must stay where it was.
// It returns the traveller to go on with: a new one, if the device made the move.
func (t *traveller) refused(to verbs.QPState, mask qpstate.Mask) *traveller {
	what := fmt.Sprintf("%s %s→%s with %s", t.qp.Type().Name(), t.from.Name(), to.Name(), mask.Name())
	want := qpstate.Check(t.qp.Type(), t.from, to, mask)
	if want == nil {
		t.e.Fatalf("%s is legal: the case is wrong", what)
	}
	err := t.try(to, mask)
	if err == nil {
		t.e.Errorf("%s was done, and the table says: %v", what, want)
		return newTraveller(t.e, t.qp.Type(), t.from)
	}
	var got *qpstate.TransitionError
	if !errors.Is(err, syscall.EINVAL) || !errors.As(err, &got) || got.Error() != want.Error() {
		t.e.Errorf("%s: got %v, want %v", what, err, want)
	}
	t.is(t.from)
	return t
}
