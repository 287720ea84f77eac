package oob

// The error types of an exchange. Each text names what happened and ends with a remedy.
// The methods of Conn add the step in front ("oob: waiting for endpoints: ...");
// errors.Is and errors.As find the wrapped error.

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

var (
	// ErrVersion is in the ProtocolError for a peer with another version of the
	// protocol: errors.Is finds it.
	ErrVersion = errors.New("oob: versions of the protocol differ")

	// ErrForeignPeer is in the ProtocolError for a peer whose first bytes belong to
	// another protocol: errors.Is finds it.
	ErrForeignPeer = errors.New("oob: the peer does not speak this protocol")
)

const trySameRelease = "run the same release of the program at both ends"

// PeerError is the failure that the peer reported with [Conn.Fail].
type PeerError struct {
	Peer    string // address of the peer; "" if decoded without a connection
	Step    string // the step at which the peer failed
	Message string // why it failed
}

// Error names the peer, the step and the peer's own message.
func (e *PeerError) Error() string {
	text := subject(e.Peer) + " failed"
	if e.Step != "" {
		text += fmt.Sprintf(" at step %q", e.Step)
	}
	text += " and says: " + e.Message
	if !strings.Contains(e.Message, "try: ") {
		text += "; fix that at the peer, its output may say more"
	}
	return text
}

// ProtocolError reports that the peer's message breaks the protocol, or does not match
// the step of this side. The connection cannot be used any more.
type ProtocolError struct {
	Peer    string // address of the peer; "" if decoded without a connection
	Problem string // what is wrong
	Try     string // the remedy; may be empty
	Err     error  // ErrVersion, ErrForeignPeer or nil
}

// Error names the peer, the problem and the remedy.
func (e *ProtocolError) Error() string {
	text := "protocol error: " + e.Problem
	if e.Peer != "" {
		text = subject(e.Peer) + ": " + text
	}
	if e.Try != "" {
		text += "; " + e.Try
	}
	return text
}

// Unwrap returns ErrVersion, ErrForeignPeer or nil.
func (e *ProtocolError) Unwrap() error { return e.Err }

// ClosedError reports that the connection ended before a message or raw bytes arrived.
// It matches io.EOF if the peer closed between two messages, and io.ErrUnexpectedEOF if
// the peer closed inside a message. Otherwise it matches the system's error, such as
// syscall.ECONNRESET.
type ClosedError struct {
	Peer  string // address of the peer
	What  string // what was arriving, such as "an endpoints message"
	Got   int    // bytes of What that arrived
	Want  int    // total bytes of What
	First bool   // no complete message or read came from this peer before
	Err   error  // io.EOF, io.ErrUnexpectedEOF or the system's error
}

// Error names the way the connection ended, the bytes that had arrived and the remedy.
func (e *ClosedError) Error() string {
	var b strings.Builder
	b.WriteString(subject(e.Peer))
	switch {
	case errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF):
		b.WriteString(" closed the connection")
	case errors.Is(e.Err, syscall.ECONNRESET), errors.Is(e.Err, syscall.EPIPE), errors.Is(e.Err, io.ErrClosedPipe):
		b.WriteString(" dropped the connection")
	case errors.Is(e.Err, syscall.ETIMEDOUT):
		b.WriteString(" no longer answers: its host or the network is down")
	default:
		fmt.Fprintf(&b, ": the connection failed (%v)", e.Err)
	}
	switch {
	case e.Got > 0:
		fmt.Fprintf(&b, " after %d of %d bytes of %s; it was stopped or it crashed: look at its output, then run both ends again", e.Got, e.Want, e.What)
	case e.First:
		b.WriteString(" before it sent anything; look at its output, and make sure that the program at that port is this one's counterpart")
	default:
		b.WriteString("; look at its output for the reason (if it was killed, there is none), then run both ends again")
	}
	return b.String()
}

// Unwrap returns Err.
func (e *ClosedError) Unwrap() error { return e.Err }

// TimeoutError reports that a step did not finish in time. It is a net.Error and matches
// both context.DeadlineExceeded and os.ErrDeadlineExceeded.
type TimeoutError struct {
	Op    string        // "waiting for" or "sending"
	Step  string        // the step, such as `barrier "in RTS"`
	Peer  string        // address of the peer
	After time.Duration // how long this side waited
	What  string        // what had begun to arrive; "" if nothing had
	Got   int           // bytes of What that arrived
	Want  int           // total bytes of What
	Last  string        // what arrived completely before, such as "its hello"; "" if nothing

	cause error // of the end of the step's context
}

// Error names the step, the wait, what had arrived and the remedy. If the step's context has a cause of its own
// (see [context.WithTimeoutCause]), the cause stands for the remedy.
func (e *TimeoutError) Error() string {
	state, remedy := subject(e.Peer), "is it at the same step? Look at its output; if it is only slow, allow a longer timeout"
	switch {
	case e.Op == opSending:
		state += " does not take the bytes"
		remedy = "is it stopped? If it is only slow, allow a longer timeout"
	case e.Got > 0:
		state += fmt.Sprintf(" stopped after %d of %d bytes of %s", e.Got, e.Want, e.What)
		remedy = "look at its output, and make sure that the program at that port is this one's counterpart"
	case e.Last != "":
		state += " has sent nothing since " + e.Last
		remedy = "is it stopped, or at another step? Look at its output; if it is only slow, allow a longer timeout"
	default:
		state += " is silent"
	}
	if e.cause != nil && !errors.Is(e.cause, context.DeadlineExceeded) {
		remedy = e.cause.Error()
	}
	return fmt.Sprintf("oob: %s %s: timed out after %v, %s; %s", e.Op, e.Step, e.After, state, remedy)
}

// Timeout is true: see net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is true: see net.Error.
func (e *TimeoutError) Temporary() bool { return true }

// Unwrap returns the cause of the end of the step's context.
func (e *TimeoutError) Unwrap() error { return e.cause }

// Is reports whether target is context.DeadlineExceeded or os.ErrDeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}

// Stranger reports whether err is the error of a connection on which no complete message, or read, of the peer arrived: the
// peer closed it, was silent, or speaks another protocol. Port scanners and health checks do so.
func Stranger(err error) bool {
	var closed *ClosedError
	var late *TimeoutError
	return errors.Is(err, ErrForeignPeer) || errors.As(err, &closed) && closed.First || errors.As(err, &late) && late.Last == ""
}

// canceledError is the error of a step whose context was canceled. It matches both
// context.Canceled and the context's cause.
type canceledError struct{ err, cause error }

func (e *canceledError) Error() string   { return "canceled at this end: " + e.cause.Error() }
func (e *canceledError) Unwrap() []error { return []error{e.err, e.cause} }

// reportable reports whether Fail sends err to the peer. It does not if the peer itself
// failed, is gone, or speaks another protocol.
func reportable(err error) bool {
	var failed *PeerError
	var gone *ClosedError
	return !errors.As(err, &failed) && !errors.As(err, &gone) && !errors.Is(err, ErrForeignPeer)
}

func subject(peer string) string {
	if peer == "" {
		return "the peer"
	}
	return "peer " + peer
}
