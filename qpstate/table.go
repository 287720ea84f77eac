// The transition table, and the judge that reads it.
//
// The rows are those that the Linux kernel applies (ib_modify_qp_is_ok): for
// each type and each pair of states, which mask bits must be there and which
// may. STATE may always be there. CAP never may, whatever the man page says.

package qpstate

import (
	"syscall"

	"github.com/pkg/errors"
)

// Transition is one legal move: a row of the table.
type Transition struct {
	Type     Type  // of the queue pair
	From, To State // the move; both the same: a change without one
	Required Mask  // each of these must be in the mask, besides MaskState
	Optional Mask  // each of these may be
}

// Name is the move as it is drawn: "RESET→INIT".
func (t Transition) Name() string { return t.From.Name() + "→" + t.To.Name() }

// row is a move for one type; edge collects the types' rows of one move.
type row struct{ required, optional Mask }

type edge struct {
	from, to   State
	rc, uc, ud row
}

// Attributes that a working send side may change, by type.
const (
	sendRC = MaskCurState | MaskAltPath | MaskAccessFlags | MaskMinRNRTimer | MaskPathMigState
	sendUC = MaskCurState | MaskAltPath | MaskAccessFlags | MaskPathMigState
	sendUD = MaskCurState | MaskQKey
)

var edges = []edge{
	{from: Reset, to: Init,
		rc: row{required: MaskPKeyIndex | MaskPort | MaskAccessFlags},
		uc: row{required: MaskPKeyIndex | MaskPort | MaskAccessFlags},
		ud: row{required: MaskPKeyIndex | MaskPort | MaskQKey}},
	{from: Init, to: Init,
		rc: row{optional: MaskPKeyIndex | MaskPort | MaskAccessFlags},
		uc: row{optional: MaskPKeyIndex | MaskPort | MaskAccessFlags},
		ud: row{optional: MaskPKeyIndex | MaskPort | MaskQKey}},
	{from: Init, to: RTR,
		rc: row{required: MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN | MaskMaxDestRdAtomic | MaskMinRNRTimer,
			optional: MaskAltPath | MaskAccessFlags | MaskPKeyIndex},
		uc: row{required: MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN,
			optional: MaskAltPath | MaskAccessFlags | MaskPKeyIndex},
		ud: row{optional: MaskPKeyIndex | MaskQKey}},
	{from: RTR, to: RTS,
		rc: row{required: MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskSQPSN | MaskMaxRdAtomic, optional: sendRC},
		uc: row{required: MaskSQPSN, optional: sendUC},
		ud: row{required: MaskSQPSN, optional: sendUD}},
	{from: RTS, to: RTS, rc: row{optional: sendRC}, uc: row{optional: sendUC}, ud: row{optional: sendUD}},
	{from: RTS, to: SQD,
		rc: row{optional: MaskEnSQDAsyncNotify},
		uc: row{optional: MaskEnSQDAsyncNotify},
		ud: row{optional: MaskEnSQDAsyncNotify}},
	{from: SQD, to: RTS, rc: row{optional: sendRC}, uc: row{optional: sendUC}, ud: row{optional: sendUD}},
	{from: SQD, to: SQD,
		rc: row{optional: MaskPort | MaskAV | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic |
			MaskMaxDestRdAtomic | MaskAltPath | MaskAccessFlags | MaskPKeyIndex | MaskMinRNRTimer | MaskPathMigState},
		uc: row{optional: MaskAV | MaskAltPath | MaskAccessFlags | MaskPKeyIndex | MaskPathMigState},
		ud: row{optional: MaskPKeyIndex | MaskQKey}},
	{from: SQE, to: RTS, uc: row{optional: MaskCurState | MaskAccessFlags}, ud: row{optional: MaskCurState | MaskQKey}},
}

// Lookup finds the row of a move; false says that no such move is legal.
func Lookup(t Type, from, to State) (Transition, bool) {
	if t < RC || t > UD || from > Error {
		return Transition{}, false
	}
	move := Transition{Type: t, From: from, To: to}
	if to == Reset || to == Error && from != Reset {
		return move, true
	}
	for _, e := range edges {
		if e.from == from && e.to == to {
			r := [...]row{RC: e.rc, UC: e.uc, UD: e.ud}[t]
			move.Required, move.Optional = r.required, r.optional
			return move, true
		}
	}
	return Transition{}, false
}

// Transitions lists every legal move of a type: by the state it leaves, then by
// the state it reaches.
func Transitions(t Type) []Transition {
	var all []Transition
	for _, from := range States() {
		for _, to := range States() {
			if move, ok := Lookup(t, from, to); ok {
				all = append(all, move)
			}
		}
	}
	return all
}

// Check judges a move as the kernel does: nil if it is legal with this mask,
// else a *[TransitionError] that names each missing and each illegal bit.
func Check(t Type, from, to State, mask Mask) error {
	move, ok := Lookup(t, from, to)
	if !ok {
		return &TransitionError{Type: t, From: from, To: to, Impossible: true}
	}
	missing := move.Required &^ mask
	illegal := mask &^ (move.Required | move.Optional | MaskState)
	if missing|illegal == 0 {
		return nil
	}
	return &TransitionError{Type: t, From: from, To: to, Missing: missing, Illegal: illegal}
}

// Explain gives the reason for a refused move: if err is EINVAL and the table
// forbids the move it returns the *[TransitionError], which then says what
// EINVAL does not; in every other case it returns err as it is.
func Explain(err error, t Type, from, to State, mask Mask) error {
	var explained *TransitionError
	if !errors.Is(err, syscall.EINVAL) || errors.As(err, &explained) {
		return err
	}
	if why := Check(t, from, to, mask); why != nil {
		return why
	}
	return err
}
