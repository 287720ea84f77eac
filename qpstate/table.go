// The transition table, and Check, which reads it.
//
// The rows are those of the Linux kernel (ib_modify_qp_is_ok). For each type and each
// pair of states a row has the required and the optional mask bits. STATE is always
// allowed. CAP never is, although the man page lists it.

package qpstate

import (
	"syscall"

	"github.com/pkg/errors"
)

// Transition is one legal move: a row of the table.
type Transition struct {
	Type     Type  // of the queue pair
	From, To State // the move; if they are equal, only attributes change
	Required Mask  // bits that must be in the mask, apart from MaskState
	Optional Mask  // bits that may be in the mask
}

// Name returns the move in short form: "RESET→INIT".
func (t Transition) Name() string { return t.From.Name() + "→" + t.To.Name() }

// row has the masks of one move for one type; edge has the rows of one move.
type row struct{ required, optional Mask }

type edge struct {
	from, to   State
	rc, uc, ud row
}

// The attributes of each type that may change while the QP can send.
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

// Lookup returns the row of a move. It returns false if the move is not legal with any
// mask.
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

// Transitions returns every legal move of type t, sorted by From, then by To.
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

// Check returns nil if the kernel accepts the move with this mask. Otherwise it returns
// a *[TransitionError] that names each missing and each illegal bit.
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

// Explain adds the reason to the error of a refused move. If err is EINVAL and the table
// forbids the move, Explain returns a *[TransitionError]. Otherwise it returns err
// unchanged.
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
