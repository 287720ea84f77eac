// The machine that drives a queue pair through its states, one named move at a
// time, and shows each move to whoever watches.

package qpstate

import (
	"time"
)

// Modifier is a queue pair as a [Machine] sees it. *verbs.QP is one.
type Modifier interface {
	// Modify applies the attributes that mask names (ibv_modify_qp).
	Modify(attr *Attr, mask Mask) error
}

// Step is one attempted move: what was asked, what came of it, how long it took.
type Step struct {
	Type     Type          // of the queue pair
	From, To State         // the move; From is what the machine knew
	Attr     Attr          // the values given; only those in Mask count
	Mask     Mask          // MaskState, the required bits and the optional ones asked for
	Err      error         // nil if the QP is now in To
	Took     time.Duration // in ibv_modify_qp
}

// Name is the move as it is drawn: "RESET→INIT".
func (s Step) Name() string { return s.From.Name() + "→" + s.To.Name() }

// Machine drives one queue pair. It keeps the state that the last successful
// move left; after an asynchronous error the device knows better: query it and
// pass the state to [Machine.Observed]. A Machine is not safe for use by
// several goroutines at once. The zero value drives nothing: see [NewMachine]. It needs
// no closing, and is of use as long as its queue pair is open.
type Machine struct {
	typ     Type
	state   State
	qp      Modifier
	observe func(Step)
}

// NewMachine makes a machine for a queue pair in RESET, where ibv_create_qp
// leaves it. observe, if not nil, sees every step, failed ones too, in the goroutine
// that moves, before the move's method returns.
func NewMachine(t Type, qp Modifier, observe func(Step)) *Machine {
	if observe == nil {
		observe = func(Step) {}
	}
	return &Machine{typ: t, qp: qp, observe: observe}
}

// State is the state after the last successful move.
func (m *Machine) State() State { return m.state }

// Observed sets the state to the one that a query or an asynchronous event reported.
func (m *Machine) Observed(s State) { m.state = s }

// ToInit binds the QP to its port: RESET→INIT, or INIT→INIT for a change.
// RC and UC take PKeyIndex, PortNum and Access; UD takes PKeyIndex, PortNum and
// QKey.
func (m *Machine) ToInit(attr Attr) error { return m.Move(Init, attr, 0) }

// ToRTR connects the QP to its peer: INIT→RTR. RC takes AH, PathMTU, DestQPN,
// RQPSN, MaxDestRdAtomic and MinRNRTimer; UC the first four; UD nothing.
func (m *Machine) ToRTR(attr Attr) error { return m.Move(RTR, attr, 0) }

// ToRTS opens the send side: RTR→RTS (also back from SQD and SQE, with nothing, and
// from RTS itself). From RTR, RC
// takes Timeout, RetryCnt, RNRRetry, SQPSN and MaxRdAtomic; UC and UD take SQPSN.
func (m *Machine) ToRTS(attr Attr) error { return m.Move(RTS, attr, 0) }

// ToSQD stops the send queue after the work that has begun: RTS→SQD. It does not wait
// until that is done: query Attr.SQDraining.
func (m *Machine) ToSQD() error { return m.Move(SQD, Attr{}, 0) }

// ToError stops the QP: all its work requests complete with WR_FLUSH_ERR.
func (m *Machine) ToError() error { return m.Move(Error, Attr{}, 0) }

// ToReset forgets everything: the QP is as it was when created, and work
// requests still queued vanish without a completion.
func (m *Machine) ToReset() error { return m.Move(Reset, Attr{}, 0) }

// Move makes one move. The mask is MaskState, the bits that the table requires
// and those in optional. The queue pair is asked, not the table; if it answers
// EINVAL and the table forbids the move, the error is the *[TransitionError]
// that says why, or has it beneath; any other error is the queue pair's own. After an
// error the state is as before.
func (m *Machine) Move(to State, attr Attr, optional Mask) error {
	row, _ := Lookup(m.typ, m.state, to)
	attr.State = to
	step := Step{Type: m.typ, From: m.state, To: to, Attr: attr, Mask: MaskState | row.Required | optional}

	begin := time.Now()
	err := m.qp.Modify(&attr, step.Mask)
	step.Took = time.Since(begin)

	step.Err = Explain(err, m.typ, m.state, to, step.Mask)
	if step.Err == nil {
		m.state = to
	}
	m.observe(step)
	return step.Err
}
