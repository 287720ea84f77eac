package dispatch

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// silent is a provider with one device. Its completion queue reports no event: a waiting
// goroutine finds a completion only when something else wakes it.
type silent struct{}

func init() { verbs.Register(silent{}) }

func (silent) Name() string { return "silent" }
func (silent) Devices() ([]verbs.DeviceInfo, error) {
	return []verbs.DeviceInfo{{Name: "silent0"}}, nil
}
func (silent) Open(string) (verbs.ProviderDevice, error) { return &silentDevice{}, nil }

type silentDevice struct {
	verbs.ProviderDevice
	cq silentCQ
}

func (*silentDevice) Close() error                         { return nil }
func (*silentDevice) NextEvent() (verbs.AsyncEvent, error) { return verbs.AsyncEvent{}, net.ErrClosed }

func (*silentDevice) CreateCompChannel() (verbs.ProviderCompChannel, error) { return channel{}, nil }

func (d *silentDevice) CreateCQ(verbs.ProviderCQInit) (verbs.ProviderCQ, error) { return &d.cq, nil }

type channel struct{}

func (channel) Close() error { return nil }

type silentCQ struct {
	verbs.ProviderCQ
	mu     sync.Mutex
	queued []verbs.WC
}

func (cq *silentCQ) Depth() int     { return 64 }
func (cq *silentCQ) Arm(bool) error { return nil }
func (cq *silentCQ) Close() error   { return nil }

func (cq *silentCQ) Poll(wcs []verbs.WC) (int, error) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	n := copy(wcs, cq.queued)
	cq.queued = cq.queued[n:]
	return n, nil
}

func (cq *silentCQ) complete(id uint64) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.queued = append(cq.queued, verbs.WC{ID: id})
}

// newSilentCQ returns a CQ and its provider's side.
func newSilentCQ(t *testing.T) (*verbs.CQ, *silentCQ) {
	dev, err := verbs.Open("silent0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	channel, err := dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { channel.Close() })
	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: channel})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cq.Close() })
	return cq, &verbs.ProviderOf(dev).(*silentDevice).cq
}

// routes returns a route of each kind, on a completion queue of its own.
func routes(t *testing.T, test func(t *testing.T, r *Route, device *silentCQ)) {
	t.Run("one route", func(t *testing.T) {
		cq, device := newSilentCQ(t)
		r := New(cq).NewRoute(0, func(err error) { t.Error(err) })
		r.ClaimRest()
		test(t, r, device)
	})
	t.Run("a shared dispatcher", func(t *testing.T) {
		cq, device := newSilentCQ(t)
		r := New(cq).NewRoute(0, func(err error) { t.Error(err) })
		r.Claim(0)
		test(t, r, device)
	})
}

// until waits for a state of the dispatcher.
func (d *Dispatcher) until(t *testing.T, what string, state func() bool) {
	t.Helper()
	testkit.Until(t, what, func() bool {
		d.Lock()
		defer d.Unlock()
		return state()
	})
}

// TestAReadTakesWhatCameBeforeItsEnd: completions that have come are returned, also to a read whose context or
// owner has ended, and then the error.
func TestAReadTakesWhatCameBeforeItsEnd(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		for _, ownerEnds := range []bool{false, true} {
			t.Run(fmt.Sprintf("asleep %v, owner %v", asleep, ownerEnds), func(t *testing.T) {
				routes(t, func(t *testing.T, r *Route, device *silentCQ) {
					ending, end := context.WithCancelCause(t.Context())
					defer end(nil)
					contexts := [2]context.Context{ending, context.Background()}
					if ownerEnds {
						contexts = [2]context.Context{context.Background(), ending}
					}
					context.AfterFunc(ending, r.Nudge) // as a Conn does
					read := func() (int, error) { return r.Read(contexts[0], contexts[1], make([]verbs.WC, 4)) }
					if !asleep {
						device.complete(1)
						end(io.EOF)
					}
					got := make(chan error, 1)
					go func() {
						n, err := read()
						if n != 1 {
							err = errors.Errorf("%d completions, %v", n, err)
						}
						got <- err
					}()
					if asleep {
						r.d.until(t, "leader", func() bool { return !r.d.Works(nil) })
						device.complete(1)
						end(io.EOF)
					}
					if err := testkit.Receive(t, got, "end of the read"); err != nil {
						t.Error(err)
					}
					if n, err := read(); n != 0 || !errors.Is(err, io.EOF) {
						t.Errorf("then %d, %v", n, err)
					}
				})
			})
		}
	}
}

// TestAnEndDoesNotOvertakeACompletion: one goroutine leads and sleeps. Another one's request
// completes, and then its wait ends. The request must get its completion all the same.
func TestAnEndDoesNotOvertakeACompletion(t *testing.T) {
	routes(t, func(t *testing.T, r *Route, device *silentCQ) {
		ctx, stop := context.WithCancel(t.Context())
		q := r.NewQueue(1, func(*Request) error { return nil })
		var leader sync.WaitGroup
		leader.Go(func() {
			var wcs [1]verbs.WC
			if n, err := r.Read(ctx, context.Background(), wcs[:]); n != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("the leader: %d, %v", n, err)
			}
		})
		defer leader.Wait()
		defer stop()
		r.d.until(t, "leader", func() bool { return !r.d.Works(nil) })
		req, err := q.Acquire(ctx, ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := req.Start(ctx, ctx); err != nil {
			t.Fatal(err)
		}
		owner, end := context.WithCancelCause(context.Background())
		finished := make(chan error, 1)
		go func() {
			_, err := req.Finish(ctx, owner)
			finished <- err
		}()
		r.d.until(t, "sleeping goroutine", func() bool { return req.Asleep() })
		device.complete(req.ID())
		end(io.EOF)
		if err := testkit.Receive(t, finished, "end of the wait"); err != nil {
			t.Errorf("the request has completed, but its wait returned %v", err)
		}
	})
}

// TestShutWakesTheLeader: the completion that it waits for does not come any more.
func TestShutWakesTheLeader(t *testing.T) {
	routes(t, func(t *testing.T, r *Route, _ *silentCQ) {
		ctx, stop := context.WithCancel(t.Context())
		q := r.NewQueue(1, func(*Request) error { return nil })
		req, err := q.Acquire(ctx, ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := req.Start(ctx, ctx); err != nil {
			t.Fatal(err)
		}
		stop()
		left, err := req.Finish(ctx, ctx)
		if !errors.Is(err, context.Canceled) || left == nil {
			t.Fatalf("%v, %v", left, err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := left.Wait(context.Background())
			ended <- err
		}()
		r.d.until(t, "leader", func() bool { return !r.d.Works(nil) })
		r.Shut()
		if err := testkit.Receive(t, ended, "end of the wait"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAPlaceWakesTheLeader checks that a goroutine that waits for a place, and polls for the others
// meanwhile, gets the place that another goroutine gives back. No completion comes.
func TestAPlaceWakesTheLeader(t *testing.T) {
	routes(t, func(t *testing.T, r *Route, _ *silentCQ) {
		q := r.NewQueue(1, func(*Request) error { return nil })
		req, err := q.Acquire(t.Context(), t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *Request, 1)
		go func() {
			next, err := q.Acquire(context.Background(), context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		r.d.until(t, "leader", func() bool { return !r.d.Works(nil) })
		req.GiveBack()
		if next := testkit.Receive(t, got, "place"); next != req {
			t.Errorf("got %v, want the place that was given back", next)
		}
	})
}
