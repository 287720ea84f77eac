// Completion events: arming a CQ, waiting for an event, and acknowledging it. Each CQ has a channel of its own.

package workbench

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/softroce/simulated"
)

func (h *host) armCQ(a *Action) (*Result, error) {
	o, err := h.find("CQ", a.Name)
	if err != nil {
		return nil, err
	}
	h.armed(o)
	if err := o.cq.Arm(a.Solicited); err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	return &Result{}, nil
}

// What a wait without an event says.
const (
	sleeps          = "the program would sleep here: the next completion wakes it"
	sleepsSolicited = "the program would sleep here: the next completion that is solicited or has failed wakes it"
	sleepsTooLate   = "the program would sleep here, although the CQ has completions: they came before it was armed, and only a later one wakes the program"
	sleepsUnarmed   = "the program would sleep here, and no completion would wake it: the CQ is not armed"
)

// getCQEvent takes an event from the CQ's channel. Without one, a program would sleep; here nothing happens.
func (h *host) getCQEvent(a *Action) (*Result, error) {
	o, err := h.find("CQ", a.Name)
	if err != nil {
		return nil, err
	}
	h.note(&event.CQEventAwaited, "ibv_get_cq_event "+o.name)
	if o.events > 0 {
		o.events--
		o.unacked++
		return &Result{}, nil
	}
	return &Result{Asleep: true, Note: sleep(h.s.world.InspectCQ(h.side, o.cq))}, nil
}

// sleep says what wakes a program that waits for an event of a CQ.
func sleep(cq simulated.CQView) string {
	switch {
	case cq.Armed == "":
		return sleepsUnarmed
	case cq.Armed == "solicited":
		return sleepsSolicited
	case len(cq.Completions) > 0:
		return sleepsTooLate
	}
	return sleeps
}

// ackCQEvents acknowledges the events that the program has taken.
func (h *host) ackCQEvents(a *Action) (*Result, error) {
	o, err := h.find("CQ", a.Name)
	if err != nil {
		return nil, err
	}
	if o.unacked == 0 {
		return nil, errors.Errorf("%q has no event to acknowledge: take one first (get_cq_event)", a.Name)
	}
	r := &Result{acked: o.unacked}
	o.unacked = 0
	return r, nil
}

// unacknowledged is the note of a CQ's close that would wait. ibv_destroy_cq returns after all events that the program
// has taken are acknowledged.
const unacknowledged = "ibv_destroy_cq would wait here forever: the program has taken events of this CQ and not acknowledged them"
