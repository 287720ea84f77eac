// Refusals: the errors of package verbs as data.

package workbench

import (
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Refusal is a call that was refused.
type Refusal struct {
	Op         string             `json:"op"`    // the C call: "ibv_modify_qp"
	Errno      string             `json:"errno"` // "EINVAL"
	Number     int                `json:"errno_number"`
	Text       string             `json:"text"`                 // the whole error
	Cause      string             `json:"cause,omitempty"`      // why, if it is known: without the call and the errno
	Hint       string             `json:"hint,omitempty"`       // what to try
	Transition *TransitionRefusal `json:"transition,omitempty"` // the table forbids the move
	Index      *int               `json:"index,omitempty"`      // of a post: the request that was refused
}

// TransitionRefusal is a *qpstate.TransitionError.
type TransitionRefusal struct {
	Type       string   `json:"type"`
	From       string   `json:"from"`
	To         string   `json:"to"`
	Missing    []string `json:"missing"` // required bits that the mask lacks
	Illegal    []string `json:"illegal"` // bits that the move does not take
	Impossible bool     `json:"impossible,omitempty"`
}

// refusalOf describes an error; nil for nil.
func refusalOf(err error) *Refusal {
	if err == nil {
		return nil
	}
	r := &Refusal{Text: err.Error()}
	_, r.Hint, _ = strings.Cut(r.Text, "; try: ")
	var errno syscall.Errno
	var call *verbs.Error
	var post *verbs.PostError
	var move *qpstate.TransitionError
	if errors.As(err, &move) {
		errno = syscall.EINVAL
		r.Cause = move.Error()
		r.Transition = &TransitionRefusal{Type: move.Type.Name(), From: move.From.Name(), To: move.To.Name(),
			Missing: bitList(move.Missing), Illegal: bitList(move.Illegal), Impossible: move.Impossible}
	}
	switch {
	case errors.As(err, &post):
		index := post.Index
		r.Op, r.Cause, r.Index = post.Op, post.Reason, &index
		if errors.Is(post, syscall.ENOMEM) {
			r.Cause = "the queue is full" // the one reason of this device
		}
	case errors.As(err, &call):
		r.Op = call.Op
		if r.Cause == "" {
			r.Cause = call.Detail
		}
	}
	errors.As(err, &errno)
	r.Number, r.Errno = int(errno), diagnosis.ErrnoName(errno)
	return r
}

// bitList returns the names of a mask's bits, never nil.
func bitList(m qpstate.Mask) []string {
	names := []string{}
	for _, b := range m.Bits() {
		names = append(names, b.Name())
	}
	return names
}
