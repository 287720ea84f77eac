package oob

// What can go wrong between the two ends, as types. Each text says what
// happened and ends in what to try. The methods of Conn put the step in front
// ("oob: waiting for endpoints: ..."); errors.Is and errors.As look through.

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
	// ErrVersion is matched by the ProtocolError for a peer which speaks
	// another version of the protocol.
	ErrVersion = errors.New("oob: versions of the protocol differ")

	// ErrForeignPeer is matched by the ProtocolError for a peer whose first
	// bytes are not this protocol at all.
	ErrForeignPeer = errors.New("oob: the peer does not speak this protocol")
)

const trySameRelease = "run the same release of the program at both ends"

// PeerError is the peer's own failure, as the peer sent it with [Conn.Fail].
type PeerError struct {
	Peer    string // address of the peer; "" when decoded without a connection
	Step    string // what the peer was doing
	Message string // why it failed
}

// Error says which peer failed, at which step, and in its own words why.
func (e *PeerError) Error() string {
	text := subject(e.Peer) + " failed"
	if e.Step != "" {
		text += fmt.Sprintf(" at step %q", e.Step)
	}
	text += " and says: " + e.Message
	if !strings.Contains(e.Message, "try: ") {
		text += "; mend that at the peer, its own output may say more"
	}
	return text
}

// ProtocolError says that what the peer sent breaks the protocol, or does not
// fit what this end does. The connection is of no more use.
type ProtocolError struct {
	Peer    string // address of the peer; "" when decoded without a connection
	Problem string // what is wrong
	Try     string // what to do about it; may be empty
	Err     error  // ErrVersion, ErrForeignPeer or nil
}

// Error says what is wrong with what came, and what to try.
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

// Unwrap gives errors.Is ErrVersion or ErrForeignPeer.
func (e *ProtocolError) Unwrap() error { return e.Err }

// ClosedError says that the connection ended while something was still to
// come. It matches io.EOF when the peer closed between two messages,
// io.ErrUnexpectedEOF when it closed inside one, or else the system's error,
// such as syscall.ECONNRESET.
type ClosedError struct {
	Peer  string // address of the peer
	What  string // what was arriving, such as "an endpoints message"
	Got   int    // bytes of it that arrived
	Want  int    // bytes it has
	First bool   // nothing whole had come from this peer before
	Err   error  // io.EOF, io.ErrUnexpectedEOF or the system's
}

// Error says how the connection ended, after how much of what, and what to try.
func (e *ClosedError) Error() string {
	var b strings.Builder
	b.WriteString(subject(e.Peer))
	switch {
	case errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF):
		b.WriteString(" closed the connection")
	case errors.Is(e.Err, syscall.ECONNRESET), errors.Is(e.Err, syscall.EPIPE), errors.Is(e.Err, io.ErrClosedPipe):
		b.WriteString(" dropped the connection")
	case errors.Is(e.Err, syscall.ETIMEDOUT):
		b.WriteString(" no longer answers: its host or the network between is down")
	default:
		fmt.Fprintf(&b, ": the connection failed (%v)", e.Err)
	}
	switch {
	case e.Got > 0:
		fmt.Fprintf(&b, " after %d of %d bytes of %s; it was stopped or it crashed: look at its output, then run both ends again", e.Got, e.Want, e.What)
	case e.First:
		b.WriteString(" before it sent anything; look at its output, and make sure that the program at that port is this one's counterpart")
	default:
		b.WriteString("; look at its output for the reason, then run both ends again")
	}
	return b.String()
}

// Unwrap gives errors.Is the way in which it ended.
func (e *ClosedError) Unwrap() error { return e.Err }

// TimeoutError says that a step was not done in time. It is a net.Error, and
// matches both context.DeadlineExceeded and os.ErrDeadlineExceeded.
type TimeoutError struct {
	Op    string        // "waiting for" or "sending"
	Step  string        // the step, such as `barrier "in RTS"`
	Peer  string        // address of the peer
	After time.Duration // how long this end waited
	What  string        // what had begun to arrive, if anything
	Got   int           // bytes of it that arrived
	Want  int           // bytes it has
	Last  string        // what arrived whole before, such as "its hello"; "" if nothing did
}

// Error names the step, the wait, and what had come by then.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("oob: %s %s: timed out after %v, ", e.Op, e.Step, e.After)
	switch {
	case e.Op == opSending:
		return text + subject(e.Peer) + " does not take the bytes; is it stopped? If it is only slow, allow a longer timeout"
	case e.Got > 0:
		return text + fmt.Sprintf("%s stopped after %d of %d bytes of %s; look at its output, and make sure that the program at that port is this one's counterpart", subject(e.Peer), e.Got, e.Want, e.What)
	}
	if e.Last != "" {
		return text + subject(e.Peer) + " has sent nothing since " + e.Last + "; is it stopped, or at another step? Look at its output; if it is only slow, allow a longer timeout"
	}
	return text + subject(e.Peer) + " is silent; is it at the same step? Look at its output; if it is only slow, allow a longer timeout"
}

// Timeout is true: see net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is true: see net.Error.
func (e *TimeoutError) Temporary() bool { return true }

// Is makes the error match both of the library's names for a missed deadline.
func (e *TimeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}

// canceledError is a step cut short by its context: it matches both
// context.Canceled and the cause the context was cancelled with.
type canceledError struct{ err, cause error }

func (e *canceledError) Error() string   { return "given up at this end: " + e.cause.Error() }
func (e *canceledError) Unwrap() []error { return []error{e.err, e.cause} }

// tellable reports whether the peer can learn something from err: not when
// the peer is the one who failed, is gone, or would not understand.
func tellable(err error) bool {
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
