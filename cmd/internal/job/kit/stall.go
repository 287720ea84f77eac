// The limit of a job without progress: --timeout limits the time from one sign of progress to
// the next. A job that makes progress may take any time.
//
// Progress is what RDMA has moved: completions of this end, and packets of requests that the peer's
// device sent (READs, WRITEs and atomics of the peer complete nothing here). Messages over TCP are
// none: a peer can send them for ever without doing anything.

package kit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Motion has the time at which a connection last moved data, and how much the job has moved. [NewMotion] makes it.
type Motion struct {
	began time.Time
	last  atomic.Int64 // nanoseconds from began to the last sign of progress, or to the job's begin
	ever  atomic.Bool
	bytes atomic.Int64
}

// NewMotion returns a Motion that begins now.
func NewMotion() *Motion { return &Motion{began: time.Now()} }

// Idle returns the time since the last progress, and whether there was any. Before that it is the time
// since the Motion or the job began.
func (m *Motion) Idle() (since time.Duration, moved bool) {
	return time.Since(m.began) - time.Duration(m.last.Load()), m.ever.Load()
}

// Bytes returns what the job has reported with Moved; 0 for nil.
func (m *Motion) Bytes() int64 {
	if m == nil {
		return 0
	}
	return m.bytes.Load()
}

func (m *Motion) touch() { m.last.Store(int64(time.Since(m.began))) }

type motionKey struct{}

// WithMotion makes a job that runs with the context report its progress to m.
func WithMotion(ctx context.Context, m *Motion) context.Context {
	return context.WithValue(ctx, motionKey{}, m)
}

// lookEvery is how often an idle connection's queue pairs are asked for packets of the peer.
const lookEvery = 200 * time.Millisecond

// untilStalled returns a context that ends if there is no progress for limit. Its cause is then a
// *StallError. arrived reports whether packets have arrived since its last call.
func untilStalled(ctx context.Context, limit time.Duration, arrived func() bool) (context.Context, context.CancelFunc) {
	m, ok := ctx.Value(motionKey{}).(*Motion)
	if !ok {
		m = NewMotion()
		ctx = WithMotion(ctx, m)
	}
	m.touch()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(min(lookEvery, max(limit/4, time.Millisecond)))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			still, _ := m.Idle()
			if still >= lookEvery/2 && arrived() {
				Progress(ctx)
			} else if still >= limit {
				cancel(&StallError{limit})
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// arrivals returns a function that reports whether requests of the peer have arrived at one of the
// queue pairs since its last call: then the number of the next packet has changed.
func arrivals(pairs []*verbs.QP) func() bool {
	next := make([]uint32, len(pairs))
	look := func() (arrived bool) {
		for i, qp := range pairs {
			attr, err := qp.Query(qpstate.MaskRQPSN)
			if err == nil && attr.RQPSN != next[i] { // otherwise the connection is closed, or the device is gone
				next[i], arrived = attr.RQPSN, true
			}
		}
		return arrived
	}
	look()
	return look
}

// StallError is the error of a job that made no progress for Limit.
type StallError struct{ Limit time.Duration }

// Error returns how long the job made no progress, and what to try.
func (e *StallError) Error() string {
	return fmt.Sprintf("the job made no progress for %v; try: a longer --timeout, or look at the other end", e.Limit)
}

// Progress notes that the job with this context has made progress. A Tracer calls Progress for
// every completion; a job that waits in another way calls Progress itself. It allocates
// nothing.
func Progress(ctx context.Context) {
	if m, ok := ctx.Value(motionKey{}).(*Motion); ok {
		m.touch()
		if !m.ever.Load() {
			m.ever.Store(true)
		}
	}
}

// Moved notes that the job with this context has moved bytes of its data, in either direction. A
// job calls it as often as it knows more.
func Moved(ctx context.Context, bytes int64) {
	if m, ok := ctx.Value(motionKey{}).(*Motion); ok {
		m.bytes.Add(bytes)
	}
}
