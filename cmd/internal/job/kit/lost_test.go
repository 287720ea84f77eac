package kit

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

func TestLost(t *testing.T) {
	completion := func(s verbs.WCStatus) error { return &verbs.WCError{Status: s} }
	peer := func(step string) error { return &oob.PeerError{Step: step, Message: "x"} }
	for _, test := range []struct {
		err  error
		lost bool
	}{
		{completion(verbs.WCRetryExcErr), true},
		{completion(verbs.WCRNRRetryExcErr), true},
		{completion(verbs.WCRemAccessErr), false},
		{completion(verbs.WCWRFlushErr), false},
		{&peerGoneError{&oob.ClosedError{Err: io.ErrUnexpectedEOF}, completion(verbs.WCRemAccessErr)}, true},
		{&oob.ClosedError{Err: io.EOF, First: true}, true},
		{&oob.ClosedError{Err: syscall.ECONNRESET}, true},
		{&oob.ClosedError{Err: errors.New("remote error: tls: bad certificate")}, false},
		{&oob.TimeoutError{}, true},
		{&StallError{}, true},
		{&admission.IdleError{}, true},
		{&oob.AddressError{Err: syscall.ECONNREFUSED}, true},
		{&oob.AddressError{Err: syscall.EHOSTUNREACH}, true},
		{&oob.AddressError{Err: context.DeadlineExceeded}, true},
		{&oob.AddressError{Err: syscall.EACCES}, false},
		{&oob.AddressError{Err: errors.New("no such host")}, false},
		{&oob.ProtocolError{}, false},
		{peer(stepJob), false},
		{peer("hello"), false},
		{peer(stepLost), true},
		{peer(stepStopped), true},
		{context.Canceled, false},
		{usage.Errorf("x"), false},
	} {
		if got := Lost(fmt.Errorf("around: %w", test.err)); got != test.lost {
			t.Errorf("%T %v: %v", test.err, test.err, got)
		}
	}
}

// TestWhyEnded checks that a read that ended with its context is lost if the job stalled, and only then.
func TestWhyEnded(t *testing.T) {
	late := fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	for _, test := range []struct {
		cause, err error
		lost       bool
	}{
		{nil, late, false},
		{&StallError{}, late, true},
		{&StallError{}, io.ErrShortWrite, false},
		{context.Canceled, late, false},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		if test.cause != nil {
			end(test.cause)
		}
		err := whyEnded(ctx, test.err)
		if Lost(err) != test.lost || !errors.Is(err, test.err) {
			t.Errorf("%v after %v: %v", test.err, test.cause, err)
		}
		if test.err == late && test.cause != nil && !errors.Is(err, test.cause) {
			t.Errorf("%v has not the cause %v", err, test.cause)
		}
		end(nil)
	}
}

func TestFailedStep(t *testing.T) {
	stopped, stop := context.WithCancelCause(t.Context())
	stop(fmt.Errorf("stopped by a signal: %w", context.Canceled))
	lost := &oob.TimeoutError{}
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), io.ErrShortWrite, stepJob},
		{t.Context(), lost, stepLost},
		{stopped, io.ErrShortWrite, stepStopped},
	} {
		if got := failedStep(test.ctx, test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}
