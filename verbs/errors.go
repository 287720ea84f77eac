// The errors of this package. Each names the verb, the device, the errno and a remedy.

package verbs

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"
)

// Error is a verb that failed. Every verb returns it, with three exceptions: posts (*[PostError]),
// failed completions (*[WCError]), and a wait that a context ended (the context's Err and its
// cause). errors.Is finds the Errno, errors.ErrUnsupported if the Errno is EOPNOTSUPP, and
// net.ErrClosed if the object is closed. errors.As finds the *[qpstate.TransitionError] of a
// refused Modify.
type Error struct {
	Op     string        // the C call: "ibv_reg_mr"
	Device string        // "rxe0"; "" if no device is open yet
	Errno  syscall.Errno // 0 if only Err has the cause
	Err    error         // the cause, if Errno alone does not describe it
	Detail string        // the arguments that matter: "RC INIT→RTR, port 1, …"
	Hint   string        // what to try
}

// Error returns one line: call, device, arguments, errno by number and name, cause, hint. If the
// cause ends with a hint of its own, both hints are at the end of the line.
func (e *Error) Error() string {
	text := e.Op
	if e.Device != "" {
		text += " on " + e.Device
	}
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	if e.Errno != 0 {
		text += ": " + errnoText(e.Errno)
	}
	if e.Err == nil {
		return withRemedies(text, e.Hint)
	}
	cause, remedy := cutRemedy(e.Err)
	return withRemedies(text+": "+cause, e.Hint, remedy)
}

const beforeRemedy = "; try: "

// cutRemedy splits the text of an error into what happened and what to try.
func cutRemedy(err error) (what, remedy string) {
	what, remedy, _ = strings.Cut(err.Error(), beforeRemedy)
	return what, remedy
}

// withRemedies adds the remedies that are not "" to the text of an error.
func withRemedies(what string, remedies ...string) string {
	remedies = slices.DeleteFunc(remedies, func(r string) bool { return r == "" })
	if len(remedies) == 0 {
		return what
	}
	return what + beforeRemedy + strings.Join(remedies, "; or ")
}

// Unwrap returns the cause and the errno, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	var causes []error
	if e.Err != nil {
		causes = append(causes, e.Err)
	}
	if e.Errno != 0 {
		causes = append(causes, e.Errno)
	}
	return causes
}

// PostError says which work request of a post was refused. The requests before Index were
// queued. The request at Index and those after it were not queued. With [PostWRAPI] up to 256
// requests are accepted or refused together; Index is then the first of them, and any of them
// may be the cause.
//
// There is one exception. If the device itself failed (an errno other than EINVAL and ENOMEM),
// the requests from Index on may have been queued. Then move the queue pair to ERR or RESET
// before you reuse their memory.
type PostError struct {
	Op     string // "ibv_post_send", "ibv_post_recv" or "ibv_post_srq_recv"
	QPN    uint32 // 0 for an SRQ
	Index  int    // index into the posted slice
	Err    error  // the cause: a syscall.Errno, an *OverrunError, or an error that is net.ErrClosed to errors.Is
	Reason string // the broken rule, found after the refusal; "" if none was found or if Err is enough
	Hint   string // what to try; "" for the usual advice about Err
}

// Error returns one line: call, queue, index of the request, cause, reason, hint.
func (e *PostError) Error() string {
	where := "an SRQ"
	if e.QPN != 0 {
		where = fmt.Sprintf("QP %#06x", e.QPN)
	}
	cause, remedy := errText(e.Err)
	text := fmt.Sprintf("%s on %s: work request [%d] refused: %s", e.Op, where, e.Index, cause)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	hint := e.Hint
	if hint == "" {
		hint = hintFor(e.Op, errnoOf(e.Err))
	}
	return withRemedies(text, hint, remedy)
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *PostError) Unwrap() error { return e.Err }

// fail makes the error of a verb from a provider's error; nil stays nil.
func fail(op, device, detail string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Device: device, Detail: detail, Err: err}
	if errno, ok := err.(syscall.Errno); ok {
		e.Errno, e.Err = errno, nil
	}
	e.Hint = hintFor(op, errnoOf(err))
	if errors.Is(err, net.ErrClosed) {
		e.Hint = closedHint
	}
	return e
}

// closedError is net.ErrClosed with the name of the object. The text of net.ErrClosed itself is
// about network connections.
type closedError struct{ kind string }

func (e closedError) Error() string { return "the " + e.kind + " is closed" }

func (e closedError) Is(target error) bool { return target == net.ErrClosed }

const closedHint = "close it only after its last use"

// otherDevice makes the error for an object made of objects of two devices.
func otherDevice(op, device, detail string) error {
	return &Error{Op: op, Device: device, Errno: syscall.EINVAL, Detail: detail, Hint: "use objects of one opened device"}
}

// errnoOf finds the errno in an error. It returns 0 if there is none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

// errText returns what happened and what to try.
func errText(err error) (cause, remedy string) {
	if errno, ok := err.(syscall.Errno); ok {
		return errnoText(errno), ""
	}
	return cutRemedy(err)
}

// errnoText formats an errno: "EINVAL (22, invalid argument)".
func errnoText(errno syscall.Errno) string {
	name := errnoName(errno)
	switch {
	case name == "":
		name = "errno"
	case errno == syscall.EOPNOTSUPP:
		name = "EOPNOTSUPP" // the same number as ENOTSUP; verbs use this name
	}
	return fmt.Sprintf("%s (%d, %s)", name, int(errno), errno.Error())
}
