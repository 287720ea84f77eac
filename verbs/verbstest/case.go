// Cases, and the environment in which they run and report.

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

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Case is one requirement on a device.
type Case struct {
	Group, Name string
	Run         func(*Env)
}

// ID returns the case's name in quirks and in the summary, such as "queue/full send queue".
func (c Case) ID() string { return c.Group + "/" + c.Name }

// Cases returns the whole table.
func Cases() []Case {
	return slices.Concat(
		deviceCases, queryCases, pdCases, ahCases, mrCases, remapCases, mwCases, cqCases, cqSizeCases, cqExCases(), cqLoopCases, cqEventCases, srqCases(), qpCases, valueCases,
		transitionCases(), postCases, postQueueCases, builderCases, dataCases(), rdmaCases, wordCases, orderCases, datagramCases(), mcastCases,
		errorCases, localErrorCases, retryCases, flushCases, drainCases, eventCases, threadCases, wakeCases,
	)
}

// quirkPatience is how long a completion, an event or a state may take in a case with a quirk. Such a
// case may wait for what never comes. It must find a fault, and on a busy host it only finds one more. All
// others have testkit.Limit.
const quirkPatience = time.Second

// Env is the environment of a case: a device, a time limit, and the faults that were reported.
// It does not report to a testing.T, because a case with a quirk must fail. Fatalf ends the
// calling goroutine, which is the case or a goroutine that the case has started and waits for.
type Env struct {
	Dev *verbs.Device
	Ctx context.Context // ends when the case's time is over

	patience  time.Duration // how long a completion, an event or a state may take
	simulated bool          // the time is simulated: it advances only when all goroutines wait

	mu          sync.Mutex
	findings    []string
	unsupported bool // a finding was errors.ErrUnsupported
	undo        []func() error
	way         *verbs.AHAttr         // cache of route
	first       map[verbs.QPType]*end // cache of newTraveller
}

// Errorf reports a fault. The case goes on.
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

// Fatalf reports a fault and ends the calling goroutine.
func (e *Env) Fatalf(format string, args ...any) {
	e.Errorf(format, args...)
	runtime.Goexit()
}

// Cleanup registers a function to be called when the case ends, in reverse order. An error of f
// is a fault.
func (e *Env) Cleanup(f func() error) { e.undo = append(e.undo, f) }

// check reports a fault unless ok is true.
func (e *Env) check(ok bool, format string, args ...any) {
	if !ok {
		e.Errorf(format, args...)
	}
}

// ok ends the case if err is not nil. what names the call.
func (e *Env) ok(err error, what string) {
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// fails reports a fault unless err is one of want. If want is empty, any error will do.
func (e *Env) fails(err error, what string, want ...error) {
	switch {
	case err == nil:
		e.Errorf("%s succeeded, want an error %v", what, want)
	case len(want) > 0 && !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }):
		e.Errorf("%s: got %v, want %v", what, err, want)
	}
	e.helps(err, what)
}

// helps reports a fault if the error of a refused call does not say what to try. It must
// contain a hint, or the attribute bits that a move of a queue pair lacks or must not have.
func (e *Env) helps(err error, what string) {
	var bits *qpstate.TransitionError
	refusal := errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, stderrors.ErrUnsupported)
	if refusal && !strings.Contains(err.Error(), "try: ") && !errors.As(err, &bits) {
		e.Errorf("%s: %q does not say what to try", what, err)
	}
}

// patient returns a context that ends with the case's patience.
func (e *Env) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.Ctx, e.patience)
}

// soon returns a context whose deadline passes after a moment, for waits that end with it.
func (e *Env) soon() context.Context {
	ctx, cancel := context.WithTimeout(e.Ctx, testkit.Moment)
	e.Cleanup(func() error { cancel(); return nil })
	return ctx
}

// until looks again and again until done returns true. It returns false if the case's patience ends before.
func (e *Env) until(done func() bool) bool {
	ctx, cancel := e.patient()
	defer cancel()
	for !done() {
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// outcome is the result of a case.
type outcome struct {
	findings    []string
	unsupported bool
	took        time.Duration
}

// execute runs the case on its own device, with its patience, in real or in simulated time.
func (c Case) execute(ctx context.Context, device string, patience time.Duration, simulated bool) outcome {
	begin := time.Now()
	e := &Env{patience: patience, simulated: simulated, first: make(map[verbs.QPType]*end)}
	dev, err := verbs.Open(device)
	if err != nil {
		e.Errorf("verbs.Open(%q): %v", device, err)
		return outcome{findings: e.findings, took: time.Since(begin)}
	}
	ctx, cancel := context.WithTimeout(ctx, testkit.Limit)
	defer cancel()
	e.Dev, e.Ctx = dev, ctx

	done := make(chan struct{})
	go func() {
		defer close(done)
		defer e.cleanUp()
		defer e.catch()
		c.Run(e)
	}()
	hung := time.NewTimer(testkit.Limit + 10*time.Second)
	defer hung.Stop()
	select {
	case <-done:
	case <-hung.C:
		e.Errorf("hangs:\n%s", stacks())
		return e.outcome(begin) // the hanging case still uses the device
	}
	if err := dev.Close(); err != nil {
		e.Errorf("closing the device after the case: %v", err)
	}
	return e.outcome(begin)
}

func (e *Env) outcome(begin time.Time) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return outcome{slices.Clone(e.findings), e.unsupported, time.Since(begin)}
}

// catch reports a panic as a fault.
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
