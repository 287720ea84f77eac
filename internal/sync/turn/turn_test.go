package turn

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// server hands out parcels. Its work waits for the next ones.
type server struct {
	Turn
	arrived   chan int // for which customer
	interrupt chan struct{}
	silent    bool // work that blocks does not notice a parcel
	customers []*customer
	working   bool
}

type customer struct {
	*Waiter
	d   *server
	got int // parcels handed out and not taken yet
}

func newServer(customers int) *server {
	d := &server{arrived: make(chan int, 1<<16), interrupt: make(chan struct{}, 1)}
	d.Interrupt = func() {
		select {
		case d.interrupt <- struct{}{}:
		default:
		}
	}
	for range customers {
		d.customers = append(d.customers, &customer{Waiter: NewWaiter(), d: d})
	}
	return d
}

// work hands out one parcel, or returns when it is interrupted or a context ends.
func (c *customer) work(ctx, owner context.Context) (err error) {
	d := c.d
	if d.working {
		panic("two work at once")
	}
	d.working = true
	d.Unlock()
	to := -1
	select {
	case to = <-d.arrived:
	default:
		noticed := d.arrived
		if d.silent {
			noticed = nil
		}
		select {
		case to = <-noticed:
		case <-d.interrupt:
		case <-ctx.Done():
			err = ctx.Err()
		case <-owner.Done():
			err = context.Cause(owner)
		}
	}
	d.Lock()
	d.working = false
	if err != nil && to < 0 && len(d.arrived) > 0 {
		to = <-d.arrived
	}
	for ; to >= 0; err = nil { // when a context has ended, all that has come is handed out
		d.customers[to].got++
		d.customers[to].Wake()
		if ctx.Err() == nil && owner.Err() == nil {
			return nil
		}
		select {
		case to = <-d.arrived:
		default:
			return nil
		}
	}
	return err
}

// await waits for a parcel and takes it.
func (c *customer) await(ctx, owner context.Context) error {
	c.d.Lock()
	defer c.d.Unlock()
	err := c.d.Await(ctx, owner, c.Waiter, func() bool { return c.got > 0 }, func() error { return c.work(ctx, owner) })
	if err == nil {
		c.got--
	}
	return err
}

// TestEveryWaiterIsServed: with many waiters whose contexts end now and then, no parcel is lost, and all come.
func TestEveryWaiterIsServed(t *testing.T) {
	const parcels = 500
	for _, procs := range []int{1, 2, 64} {
		t.Run(fmt.Sprintf("%d processors", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			d := newServer(16)
			var all sync.WaitGroup
			for n, c := range d.customers {
				all.Go(func() {
					r := rand.New(rand.NewPCG(uint64(n), 1))
					for got := 0; got < parcels; {
						d.arrived <- r.IntN(len(d.customers)) // for anybody
						if r.IntN(4) == 0 {
							runtime.Gosched()
						}
						d.arrived <- n
						ctx, cancel := context.WithCancel(testkit.Context(t))
						if r.IntN(8) == 0 {
							go cancel()
						}
						err := c.await(ctx, context.Background())
						cancel()
						if err == nil {
							got++
						} else if testkit.Context(t).Err() != nil {
							t.Errorf("customer %d got %d parcels", n, got)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// TestAnEndNeverWins: a parcel that has come before the end of a context is found, asleep or at work.
func TestAnEndNeverWins(t *testing.T) {
	for i := range 4 {
		ownerEnds, silent := i&1 != 0, i&2 != 0
		t.Run(fmt.Sprintf("owner %v, silent %v", ownerEnds, silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newServer(2)
				d.silent = silent
				forever, stop := context.WithCancel(t.Context())
				worked := make(chan error, 1)
				go func() { worked <- d.customers[0].await(forever, context.Background()) }()
				synctest.Wait()
				for range 100 {
					ending, end := context.WithCancelCause(t.Context())
					ctx, owner := ending, context.Background()
					if ownerEnds {
						ctx, owner = owner, ending
					}
					served := make(chan error, 1)
					go func() { served <- d.customers[1].await(ctx, owner) }()
					synctest.Wait()
					d.arrived <- 1
					end(io.EOF)
					if err := <-served; err != nil {
						t.Fatalf("it has come, but %v", err)
					}
					if err := d.customers[1].await(ctx, owner); !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
						t.Fatalf("then %v", err)
					}
				}
				stop()
				if err := <-worked; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

// TestWakeInterruptsTheWorker: what the worker waits for may come from elsewhere.
func TestWakeInterruptsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newServer(1)
		c := d.customers[0]
		served := make(chan error, 1)
		go func() { served <- c.await(t.Context(), context.Background()) }()
		synctest.Wait()
		d.Lock()
		c.got++
		d.Turn.Wake(c.Waiter)
		d.Unlock()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestTheTurnIsPassedOn: while somebody waits, somebody works, in the order in which they came.
func TestTheTurnIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newServer(3)
		served := make(chan int, 3)
		for n, c := range d.customers {
			go func() {
				if err := c.await(t.Context(), context.Background()); err != nil {
					t.Error(err)
				}
				served <- n
			}()
			synctest.Wait()
		}
		for n, c := range d.customers {
			d.Lock()
			if d.worker != c.Waiter {
				t.Errorf("customer %d does not work", n)
			}
			d.Unlock()
			d.arrived <- n
			if got := <-served; got != n {
				t.Errorf("customer %d is served, want %d", got, n)
			}
			synctest.Wait()
		}
		d.Lock()
		defer d.Unlock()
		if !d.Works(nil) || d.first != nil || d.last != nil {
			t.Error("somebody is left")
		}
	})
}

func TestAwaitAllocatesNothing(t *testing.T) {
	d := newServer(1)
	if n := testing.AllocsPerRun(100, func() {
		d.arrived <- 0
		if err := d.customers[0].await(t.Context(), context.Background()); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSpareWaiters: what many goroutines have borrowed at once is not kept.
func TestSpareWaiters(t *testing.T) {
	var d Turn
	var borrowed []*Waiter
	for range 1000 {
		borrowed = append(borrowed, d.Borrow())
	}
	for _, w := range borrowed {
		d.Return(w)
	}
	if n := len(d.spare); n == 0 || n > 100 {
		t.Errorf("%d waiters are kept", n)
	}
}
