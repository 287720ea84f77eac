// The table's rows, and what a case reports through.

package verbstest

import (
	"context"
	stderrors "errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Case is one thing that a device must do.
type Case struct {
	Group, Name string
	Run         func(*Env)
}

// ID is how quirks and the summary name the case: "post/full send queue".
func (c Case) ID() string { return c.Group + "/" + c.Name }

// Cases is the whole table.
func Cases() []Case {
	return slices.Concat(
		deviceCases, queryCases, pdCases, ahCases, mrCases, remapCases, mwCases, cqCases, cqSizeCases, cqExCases(), cqLoopCases, cqEventCases, srqCases(), qpCases, valueCases,
		transitionCases(), postCases, postQueueCases, builderCases, dataCases(), rdmaCases, wordCases, orderCases, datagramCases(), mcastCases,
		errorCases, localErrorCases, retryCases, flushCases, drainCases, eventCases, threadCases, wakeCases,
	)
}

// caseTime is how long a case may take: much more than any needs in the slowest
// machine.
const caseTime = 20 * time.Second

// Env is what a case works with: a device, a time limit, and a place to report
// to. Reports are collected, not given to a testing.T, because a case with a
// quirk must fail. Fatalf ends the goroutine that calls it: the case, or one of
// the goroutines that a case has started and waits for.
type Env struct {
	Dev *verbs.Device
	Ctx context.Context // ends when the case's time is over

	mu          sync.Mutex
	findings    []string
	unsupported bool // a finding was errors.ErrUnsupported
	undo        []func() error
	way         *verbs.AHAttr         // see route
	first       map[verbs.QPType]*end // see newTraveller
}

// Errorf reports a fault; the case goes on.
func (e *Env) Errorf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.findings = append(e.findings, fmt.Sprintf(format, args...))
	for _, arg := range args {
		if err, ok := arg.(error); ok && errors.Is(err, stderrors.ErrUnsupported) {
			e.unsupported = true
		}
	}
}

// Fatalf reports a fault and ends the goroutine.
func (e *Env) Fatalf(format string, args ...any) {
	e.Errorf(format, args...)
	runtime.Goexit()
}

// Cleanup has f called when the case ends, the last one first. Its error is a
// fault.
func (e *Env) Cleanup(f func() error) { e.undo = append(e.undo, f) }

// check reports a fault unless ok.
func (e *Env) check(ok bool, format string, args ...any) {
	if !ok {
		e.Errorf(format, args...)
	}
}

// ok ends the case if err is one; what says what was tried.
func (e *Env) ok(err error, what string) {
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// fails reports a fault unless err is one of want, or any error if there is none.
func (e *Env) fails(err error, what string, want ...error) {
	switch {
	case err == nil:
		e.Errorf("%s succeeded, want an error %v", what, want)
	case len(want) > 0 && !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }):
		e.Errorf("%s: got %v, want %v", what, err, want)
	}
	e.helps(err, what)
}

// helps reports a fault if an error of a refusal says nothing of what to try: its
// hint, or the bits that a queue pair's move lacks or must not have.
func (e *Env) helps(err error, what string) {
	var bits *qpstate.TransitionError
	refusal := errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, stderrors.ErrUnsupported)
	if refusal && !strings.Contains(err.Error(), "try: ") && !errors.As(err, &bits) {
		e.Errorf("%s: %q does not say what to try", what, err)
	}
}

// outcome is what a case left.
type outcome struct {
	findings    []string
	unsupported bool
	took        time.Duration
}

// execute runs the case on a device of its own.
func (c Case) execute(ctx context.Context, device string) outcome {
	begin := time.Now()
	e := &Env{first: make(map[verbs.QPType]*end)}
	dev, err := verbs.Open(device)
	if err != nil {
		e.Errorf("verbs.Open(%q): %v", device, err)
		return outcome{findings: e.findings, took: time.Since(begin)}
	}
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	e.Dev, e.Ctx = dev, ctx

	done := make(chan struct{})
	go func() {
		defer close(done)
		defer e.cleanUp()
		defer e.catch()
		c.Run(e)
	}()
	select {
	case <-done:
	case <-time.After(caseTime + 10*time.Second):
		e.Errorf("hangs:\n%s", stacks())
		return e.outcome(begin) // the device is not to be had any more
	}
	if err := dev.Close(); err != nil {
		e.Errorf("after the case: %v", err)
	}
	return e.outcome(begin)
}

func (e *Env) outcome(begin time.Time) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return outcome{slices.Clone(e.findings), e.unsupported, time.Since(begin)}
}

// catch makes a panic a fault.
func (e *Env) catch() {
	if p := recover(); p != nil {
		e.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

func (e *Env) cleanUp() {
	for _, f := range slices.Backward(e.undo) {
		if err := f(); err != nil {
			e.Errorf("cleaning up: %v", err)
		}
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
