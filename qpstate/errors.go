// The error of a refused transition.

package qpstate

import (
	"strings"
	"syscall"
)

// TransitionError explains why the table forbids a move. It matches syscall.EINVAL,
// the kernel's error for such a move.
type TransitionError struct {
	Type       Type  // of the queue pair
	From, To   State // the requested move
	Missing    Mask  // required bits that were not set
	Illegal    Mask  // bits that were set and are neither required nor optional
	Impossible bool  // the table has no such move with any mask
}

// Error names the move and each wrong bit, with the purpose of its attribute.
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

// Is reports whether target is syscall.EINVAL.
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

// described lists bits with the purpose of each: "PORT (the device's port …)".
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
