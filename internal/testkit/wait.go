// Package testkit is how this module's tests wait for events and count allocations.
//
// No test asserts how long something takes: a host may be slow, busy, or stopped for a while. A test
// that needs time runs in simulated time (testing/synctest). A test of something real waits for the
// event itself. Every such wait has the same Limit, which only ends tests that hang.
//
// test/dependencies looks for tests that measure time or have limits of their own.
package testkit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
)

// Moment is long enough for a goroutine to start and fall asleep on most hosts. A test may sleep for a
// Moment to make something likely, and may let a deadline pass. It must pass if the Moment was too short.
const Moment = 20 * time.Millisecond

// interval is the time between two looks of Until.
const interval = 2 * time.Millisecond

// Context returns a context that ends with the test, or after Limit. Its cause then says so.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeoutCause(tb.Context(), Limit, errors.Errorf("%s waited for %v", tb.Name(), Limit))
	tb.Cleanup(cancel)
	return ctx
}

// Deadline returns the time at which a wait that begins now has lasted for Limit. It is for SetDeadline.
func Deadline() time.Time { return time.Now().Add(Limit) }

// Expiring returns a context whose deadline passes after a Moment. It is for tests of waits that end
// with their context.
func Expiring(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Moment)
	tb.Cleanup(cancel)
	return ctx
}

// Until looks again and again until done returns true. After Limit it ends the test with a failure that
// has what, the event that it waited for, and what the functions in seen return.
func Until(tb testing.TB, what string, done func() bool, seen ...func() string) {
	tb.Helper()
	for deadline := Deadline(); !done(); time.Sleep(interval) {
		if time.Now().After(deadline) {
			late(tb, what, seen)
		}
	}
}

// Receive returns the next value from a channel, or the zero value if the channel is closed. After Limit it
// ends the test as Until does.
func Receive[T any](tb testing.TB, from <-chan T, what string, seen ...func() string) T {
	tb.Helper()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		late(tb, what, seen)
		panic("unreachable")
	}
}

func late(tb testing.TB, what string, seen []func() string) {
	tb.Helper()
	text := []string{fmt.Sprintf("no %s within %v", what, Limit)}
	for _, f := range seen {
		text = append(text, f())
	}
	tb.Fatal(strings.Join(text, "\n"))
}
