// Machine drives a queue pair through its states and reports each move to an observer.

package qpstate

import (
	"time"
)

// Modifier is the part of a queue pair that a [Machine] uses. *verbs.QP implements it.
type Modifier interface {
	// Modify applies the attributes that mask names (ibv_modify_qp).
	Modify(attr *Attr, mask Mask) error
}

// Step describes one attempted move, its result and its duration.
type Step struct {
	Type     Type          // of the queue pair
	From, To State         // the move; From is the machine's state before it
	Attr     Attr          // the values; only the fields in Mask count
	Mask     Mask          // MaskState, the required bits and the caller's optional bits
	Err      error         // nil if the QP is now in To
	Took     time.Duration // time spent in ibv_modify_qp
}

// Name returns the move in short form: "RESET→INIT".
func (s Step) Name() string { return s.From.Name() + "→" + s.To.Name() }

// Machine drives one queue pair. It remembers the state after the last successful move.
// An asynchronous error can change the state of the queue pair: query the queue pair
// and pass its state to [Machine.Observed].
//
// A Machine is for one goroutine at a time. [NewMachine] makes one; the zero value
// cannot be used. A Machine is valid while its queue pair is open and needs no Close.
type Machine struct {
	typ     Type
	state   State
	qp      Modifier
	observe func(Step)
}

// NewMachine returns a Machine for a queue pair in RESET, the state after
// ibv_create_qp. If observe is not nil, the Machine calls it after each step, failed or
// not, in the caller's goroutine, before the method returns.
func NewMachine(t Type, qp Modifier, observe func(Step)) *Machine {
	if observe == nil {
		observe = func(Step) {}
	}
	return &Machine{typ: t, qp: qp, observe: observe}
}

// State returns the state after the last successful move or call of Observed.
func (m *Machine) State() State { return m.state }

// Observed sets the Machine's state to s, as reported by a query or an asynchronous
// event. The queue pair does not move.
func (m *Machine) Observed(s State) { m.state = s }

// ToInit binds the QP to its port: RESET→INIT, or INIT→INIT for a change.
// RC and UC take PKeyIndex, PortNum and Access. UD takes PKeyIndex, PortNum and QKey.
func (m *Machine) ToInit(attr Attr) error { return m.Move(Init, attr, 0) }

// ToRTR connects the QP to its peer: INIT→RTR. RC takes AH, PathMTU, DestQPN, RQPSN,
// MaxDestRdAtomic and MinRNRTimer. UC takes the first four. UD takes no attributes.
func (m *Machine) ToRTR(attr Attr) error { return m.Move(RTR, attr, 0) }

// ToRTS enables sending: RTR→RTS. From RTR, RC takes Timeout, RetryCnt, RNRRetry, SQPSN
// and MaxRdAtomic; UC and UD take SQPSN. ToRTS also moves from RTS, SQD and SQE, without
// attributes.
func (m *Machine) ToRTS(attr Attr) error { return m.Move(RTS, attr, 0) }

// ToSQD stops the send queue: RTS→SQD. Sends that have begun still finish. ToSQD does
// not wait for them; query Attr.SQDraining to see whether they are done.
func (m *Machine) ToSQD() error { return m.Move(SQD, Attr{}, 0) }

// ToError stops the QP: its outstanding work requests complete with WR_FLUSH_ERR.
func (m *Machine) ToError() error { return m.Move(Error, Attr{}, 0) }

// ToReset returns the QP to the state after its creation. Queued work requests are
// discarded without a completion.
func (m *Machine) ToReset() error { return m.Move(Reset, Attr{}, 0) }

// Move moves the queue pair to the state to. The mask consists of MaskState, the bits
// that the table requires and the bits in optional. Move always calls the queue pair's
// Modify, even for a move that the table forbids. If Modify returns EINVAL and the table
// forbids the move, the error is or wraps a *[TransitionError]. Other errors are
// Modify's own. After an error the Machine's state is unchanged.
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
