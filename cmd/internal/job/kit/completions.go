// Waiting for both queues at once, and finding the cause of a flush in the other queue.

package kit

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Completions starts two goroutines. One waits for completions of the send queue, the other for
// those of the receive queue, at most for receives of them. Each ends when a completion fails.
// The function next returns the completions in the order in which they come. After an error,
// call only stop, which ends the goroutines.
func (n Tracer) Completions(ctx context.Context, c *rc.Conn, receives int) (next func() (verbs.WC, error), stop func()) {
	type completion struct {
		wc  verbs.WC
		err error
	}
	job := ctx
	ctx, cancel := context.WithCancel(ctx)
	came := make(chan completion)
	var waiting sync.WaitGroup
	for _, queue := range []struct {
		wait       func(context.Context) (verbs.WC, error)
		name, what string
		count      int
	}{{c.WaitSend, "send", "a completion of the send queue", math.MaxInt}, {c.WaitRecv, "receive", "the peer's message", receives}} {
		waiting.Go(func() {
			for range queue.count {
				wc, err := n.wait(ctx, queue.wait, queue.name)
				select {
				case came <- completion{wc, errors.WithMessagef(err, "waiting for %s", queue.what)}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		})
	}
	next = func() (verbs.WC, error) {
		var first completion
		select {
		case first = <-came:
		case <-job.Done():
			return verbs.WC{}, context.Cause(job)
		}
		if !Flushed(first.err) {
			return first.wc, first.err
		}
		// A flush is a consequence. Its cause came before it, but on the other queue
		// or as an event of the device.
		moment := time.After(causeLimit)
		for {
			select {
			case other := <-came:
				if other.err != nil && !Flushed(other.err) {
					return other.wc, other.err
				}
				if other.err != nil {
					return first.wc, errNoCause(first.err)
				}
			case <-moment:
				return first.wc, errNoCause(first.err)
			}
		}
	}
	return next, func() {
		cancel()
		waiting.Wait()
	}
}

// Cause returns the error of the failed send that moved the queue pair to ERR, if err is a
// flushed receive: the send's error says more. Cause returns other errors unchanged. Nothing
// else may wait for the send queue.
func (n Tracer) Cause(c *rc.Conn, err error) error {
	if !Flushed(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), causeLimit)
	defer cancel()
	var wcs [16]verbs.WC
	for {
		got, _ := c.WaitSends(ctx, wcs[:])
		for i := range wcs[:got] {
			if failed := wcs[i].Err(); failed != nil && !Flushed(failed) {
				n.LogCompletion(&wcs[i])
				return failed
			}
		}
		switch {
		case got > 0:
		case ctx.Err() != nil:
			return errNoCause(err)
		default: // the connection is closed
			return err
		}
	}
}

// FirstFailure returns the error of the first failed completion that is not a flush. If all
// failed completions are flushes, it returns the error of the first flush; if none failed, nil.
func FirstFailure(wcs []verbs.WC) error {
	flushed := -1
	for i := range wcs {
		switch wcs[i].Status {
		case verbs.WCSuccess:
		case verbs.WCWRFlushErr:
			if flushed < 0 {
				flushed = i
			}
		default:
			return wcs[i].Err()
		}
	}
	if flushed < 0 {
		return nil
	}
	return wcs[flushed].Err()
}

// causeLimit is how long a flush waits for its cause.
const causeLimit = 250 * time.Millisecond

// errNoCause makes the error for a flush if this end has no failed completion that caused the
// flush. When rdma_rxe refuses a request of the peer, it does not report an event either.
func errNoCause(flush error) error {
	return errors.WithMessage(flush, "nothing that this end asked for has failed, so the queue pair refused a request of the peer (its key, range, rights or length; the peer's completion says which)")
}

// Flushed reports whether err is the error of a flushed work request.
func Flushed(err error) bool {
	var we *verbs.WCError
	return errors.As(err, &we) && we.Status == verbs.WCWRFlushErr
}
