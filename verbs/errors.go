// The errors of this package: each names the verb, the device, the errno and
// what to try.

package verbs

import (
	"fmt"
	"net"
	"syscall"

	"github.com/pkg/errors"
)

// Error is a verb that failed: what every call of this package returns but posts
// (*[PostError]), completions (*[WCError]), [ChooseGID] (*[GIDError]) and the end of a
// context (its Err and its cause). errors.Is finds its Errno, through
// EOPNOTSUPP also errors.ErrUnsupported, and net.ErrClosed for an object that is
// closed; errors.As finds a *[qpstate.TransitionError] beneath a refused Modify.
type Error struct {
	Op     string        // the C call: "ibv_reg_mr"
	Device string        // "rxe0"; "" if no device is open yet
	Errno  syscall.Errno // 0 if Err says more than a number could
	Err    error         // the cause beneath, if there is more than Errno
	Detail string        // the arguments that matter: "RC INIT→RTR, port 1, …"
	Hint   string        // what to try
}

// Error is one line: call, device, arguments, errno by number and name, hint.
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
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += "; try: " + e.Hint
	}
	return text
}

// Unwrap gives errors.Is and errors.As the cause and the errno.
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
// queued; that at Index and those after it were not, and are never sent. With [PostWRAPI]
// up to 256 requests are taken or refused together: Index is then the first of them,
// and any of them may be the cause.
//
// The exception is a device that fails as a whole, with an errno other than EINVAL and
// ENOMEM: the requests from Index on may have been queued. Move the queue pair to ERR or
// RESET before their memory is used for something else.
type PostError struct {
	Op     string // "ibv_post_send", "ibv_post_recv" or "ibv_post_srq_recv"
	QPN    uint32 // 0 for an SRQ
	Index  int    // into the slice that was posted
	Err    error  // why: a syscall.Errno, or net.ErrClosed to errors.Is
	Reason string // the rule that was broken, as found after the refusal; "" if Err says it all, or none was found
	Hint   string // what to try; "" for what Err suggests
}

// Error names the queue, the request and the reason.
func (e *PostError) Error() string {
	where := "an SRQ"
	if e.QPN != 0 {
		where = fmt.Sprintf("QP %#06x", e.QPN)
	}
	text := fmt.Sprintf("%s on %s: work request [%d] refused: %s", e.Op, where, e.Index, errText(e.Err))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	hint := e.Hint
	if hint == "" {
		hint = hintFor(e.Op, errnoOf(e.Err))
	}
	if hint != "" {
		text += "; try: " + hint
	}
	return text
}

// Unwrap gives errors.Is the errno.
func (e *PostError) Unwrap() error { return e.Err }

// fail makes the error of a verb from what a provider returned; nil stays nil.
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

// closedError is net.ErrClosed that names the object: the text of net.ErrClosed is about a
// network connection.
type closedError struct{ kind string }

func (e closedError) Error() string { return "the " + e.kind + " is closed" }

func (e closedError) Is(target error) bool { return target == net.ErrClosed }

const closedHint = "closing it only after its last use"

// otherDevice refuses to make an object of two devices'.
func otherDevice(op, device, detail string) error {
	return &Error{Op: op, Device: device, Errno: syscall.EINVAL, Detail: detail, Hint: "objects of one opened device"}
}

// errnoOf finds the errno beneath an error, 0 if there is none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

func errText(err error) string {
	if errno, ok := err.(syscall.Errno); ok {
		return errnoText(errno)
	}
	return err.Error()
}

// errnoText is "EINVAL (22, invalid argument)".
func errnoText(errno syscall.Errno) string {
	name := errnoName(errno)
	switch {
	case name == "":
		name = "errno"
	case errno == syscall.EOPNOTSUPP:
		name = "EOPNOTSUPP" // one number with ENOTSUP, and the name that verbs use
	}
	return fmt.Sprintf("%s (%d, %s)", name, int(errno), errno.Error())
}
