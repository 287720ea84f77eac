package rnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// greet says hello to a listener as a client does, and does no more. If a step takes too long on a busy host it
// tries again.
func (l *Listener) greet(t *testing.T) (c *oob.Conn) {
	t.Helper()
	testkit.Until(t, "hello of the listener", func() bool {
		var err error
		if c, err = oob.Dial(t.Context(), l.Addr().String(), oob.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, err = c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: jobName, Params: helloParams(minRing)})
		if err != nil && !late(err) && !errors.As(err, new(*oob.ClosedError)) {
			t.Fatal(err)
		}
		return err == nil
	})
	return c
}

func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}

// TestWaitingPeersLeave: a listener whose program does not accept forgets peers that wait and leave.
func TestWaitingPeersLeave(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 1})
	l.dial(t, d) // takes the only place
	files, goroutines := openFiles(), runtime.NumGoroutine()
	for range 5 * waitingPerPlace {
		l.greet(t).Close()
	}
	testkit.Until(t, "end of the files and goroutines of peers that left",
		func() bool { return openFiles() <= files && runtime.NumGoroutine() <= goroutines },
		func() string {
			return fmt.Sprintf("%d files and %d goroutines; before %d and %d", openFiles(), runtime.NumGoroutine(), files, goroutines)
		})
	l.accept(t)
	l.dial(t, d)
	l.accept(t)
}

// queue is a listener without a device, in simulated time. Its peers take places and never connect.
type queue struct {
	*Listener
	life context.Context // of the silent peers
	end  context.CancelFunc
}

func newQueue(t *testing.T, places int) queue {
	l := &Listener{places: make(chan struct{}, places)}
	l.ctx, l.cancel = context.WithCancelCause(t.Context())
	life, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	return queue{l, life, end}
}

// silent lets peers come that fall silent after their hello. Each sends what became of it.
func (q queue) silent(peers int) chan error {
	over := make(chan error, peers)
	for range peers {
		go func() {
			if err := q.awaitPlace(nil, nil); err != nil {
				over <- err
				return
			}
			ctx, me := q.begin(q.life)
			<-ctx.Done()
			q.leave(me)
			<-q.places
			over <- context.Cause(ctx)
		}()
	}
	synctest.Wait()
	return over
}

// TestSlowPeersLoseTheirPlaces: peers that fall silent after their hello do not keep others out. They lose
// their places only while others wait.
func TestSlowPeersLoseTheirPlaces(t *testing.T) {
	const places = 4
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, places)
		waiting := q.silent(places) // nobody waits for their places
		time.Sleep(2 * connectLimit)
		synctest.Wait()
		if len(waiting) > 0 {
			t.Fatalf("a peer lost its place, and nobody wants it: %v", <-waiting)
		}
		others := q.silent(places*waitingPerPlace/2 - places)
		began := time.Now()
		if err := q.awaitPlace(nil, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > connectLimit*8/10 {
			t.Errorf("an honest peer has a place after %v", took)
		}
		if err := <-waiting; !errors.Is(err, errSlow) {
			t.Errorf("a slow peer: %v, want %v", err, errSlow)
		}
		ctx, me := q.begin(q.life)
		time.Sleep(q.patience() * 9 / 10) // the honest peer connects slowly, but not too slowly
		if ctx.Err() != nil {
			t.Errorf("an honest peer lost its place: %v", context.Cause(ctx))
		}
		q.leave(me)
		<-q.places
		q.end()
		for range cap(others) {
			if err := <-others; !errors.Is(err, errSlow) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// TestFullListener: a listener with as many waiting peers as it allows refuses one more at once.
func TestFullListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 4
		q := newQueue(t, places)
		over := q.silent(places + places*waitingPerPlace)
		began := time.Now()
		if err := q.awaitPlace(nil, nil); !errors.Is(err, errFull) || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		q.cancel(errClosing)
		for range cap(over) - places {
			if err := <-over; !errors.Is(err, errClosing) {
				t.Errorf("a waiting peer of a listener that closes: %v", err)
			}
		}
	})
}

// TestFullListenerSaysSo: the peer that a full listener refuses has an error that says why.
func TestFullListenerSaysSo(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 1, Config: Config{Timeout: testkit.Limit}})
	l.dial(t, d) // takes the only place
	for range waitingPerPlace {
		l.greet(t)
	}
	waiting := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.waiting }
	testkit.Until(t, "full listener", func() bool { return waiting() == waitingPerPlace },
		func() string { return fmt.Sprintf("%d peers wait", waiting()) })
	c, err := d.DialContext(testkit.Context(t), network, l.Addr().String())
	if err == nil {
		end(c.(*Conn))
	}
	var refused *oob.PeerError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), errFull.Error()) {
		t.Errorf("one more peer: %v, want %v", err, errFull)
	}
}

// TestPeerLeavesTheQueue: a peer that ends while it waits frees its place in the queue.
func TestPeerLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		q.silent(1)
		gone := make(chan struct{})
		close(gone)
		if err := q.awaitPlace(gone, func() error { return net.ErrClosed }); !errors.Is(err, net.ErrClosed) || q.waiting != 0 {
			t.Errorf("%v, %d peers wait", err, q.waiting)
		}
	})
}
