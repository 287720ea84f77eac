// What a refused transition says.

package qpstate

import (
	"strings"
	"syscall"
)

// TransitionError says why the table forbids a move. errors.Is(err,
// syscall.EINVAL) holds, since that is what the kernel would say.
type TransitionError struct {
	Type       Type  // of the queue pair
	From, To   State // the move that was asked for
	Missing    Mask  // required and not given
	Illegal    Mask  // given and neither required nor optional
	Impossible bool  // the table has no such move, with any mask
}

// Error names the move and every bit that is wrong, each with what it is for.
func (e *TransitionError) Error() string {
	move := e.Type.Name() + " " + e.From.Name() + "→" + e.To.Name() + ": "
	if e.Impossible {
		return move + "no such transition; from " + e.From.Name() + " a queue pair can go to " + e.reachable()
	}
	var parts []string
	if e.Missing != 0 {
		parts = append(parts, "missing "+described(e.Missing))
	}
	if e.Illegal != 0 {
		parts = append(parts, "not allowed here "+described(e.Illegal))
	}
	return move + strings.Join(parts, "; ")
}

// Is lets a TransitionError stand for the kernel's EINVAL.
func (e *TransitionError) Is(target error) bool { return target == syscall.EINVAL }

func (e *TransitionError) reachable() string {
	var names []string
	for _, to := range States() {
		if _, ok := Lookup(e.Type, e.From, to); ok {
			names = append(names, to.Name())
		}
	}
	if len(names) == 0 {
		return "nothing (the table has no " + e.Type.Name() + " rows)"
	}
	return strings.Join(names, ", ")
}

// described lists bits with their meaning: "PORT (the device's port …)".
func described(m Mask) string {
	var parts []string
	for _, bit := range m.Bits() {
		text := bitName(bit)
		if about := bit.About(); about != "" {
			text += " (" + about + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
