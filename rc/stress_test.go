package rc

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestAllMethodsBesideEachOther calls all methods beside each other, cuts some waits short and closes
// the Conn meanwhile, once per kind of Conn. RAWVERBS_STRESS sets how long it goes on; make stress sets a minute.
func TestAllMethodsBesideEachOther(t *testing.T) {
	var length time.Duration
	if text := os.Getenv("RAWVERBS_STRESS"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for began, round := time.Now(), 0; round < 6 || time.Now().Before(began.Add(length)); round++ {
		cfg := Config{OneCQ: round%2 == 1, QPs: 1 + round%3, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}}
		c, s, remote := doPair(t, cfg, cfg)
		(&stress{t: t, c: c, s: s, remote: remote}).run(100 * time.Millisecond)
	}
}

type stress struct {
	t      *testing.T
	c, s   *end
	remote oob.Region
	all    sync.WaitGroup
	stop   atomic.Bool
	added  atomic.Uint64 // adds of which the completion came
	lost   atomic.Uint64 // adds of which none came: the Conn was closed
}

// again calls f in goroutines, each until the Conn is closed.
func (x *stress) again(goroutines int, what string, f func(ctx context.Context) error) {
	for i := range goroutines {
		x.all.Go(func() {
			for k := 0; ; k++ {
				ctx, cancel := x.t.Context(), func() {}
				if k%3 == i%3 {
					ctx, cancel = context.WithTimeout(ctx, testkit.Moment*time.Duration(k%7)/200)
				}
				err := f(ctx)
				cancel()
				switch {
				case err == nil, errors.Is(err, context.DeadlineExceeded):
				case x.stop.Load():
					return
				default:
					x.t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
}

func (x *stress) run(length time.Duration) {
	c, s, remote := x.c, x.s, x.remote
	x.again(2, "FetchAdd", x.add)
	x.again(2, "Write", func(ctx context.Context) error { return c.Write(ctx, c.mr.Slice(slot, 64), remote, slot) })
	x.again(2, "Read", func(ctx context.Context) error { return c.Read(ctx, c.mr.Slice(2*slot, 64), remote, 2*slot) })
	x.again(1, "CompareSwap", func(ctx context.Context) error { return errOf(c.CompareSwap(ctx, remote, 16, 0, 1)) })
	x.again(1, "DoOn", func(ctx context.Context) error {
		wr := verbs.SendWR{ID: 9, Opcode: verbs.OpRDMAWrite, RemoteAddr: remote.Addr, RKey: remote.RKey}
		wc, err := c.DoOn(ctx, len(c.pairs)-1, &wr)
		if err == nil && wc.ID != 9 {
			err = errors.Errorf("got %+v", wc)
		}
		return err
	})
	x.again(1, "Send", func(ctx context.Context) error { return s.Send(ctx, s.mr.Slice(3*slot, 64)) })
	x.again(2, "Recv", func(ctx context.Context) error { return errOf(c.Recv(ctx, c.mr.Slice(4*slot, slot))) })
	x.own()
	x.again(1, "the rest", func(context.Context) error {
		c.Share("late", c.mr)
		_, _ = c.PeerRegion("late")
		_, _, _, _, _ = c.QPs(), c.LocalEndpoints(), c.PeerEndpoints(), c.Context(), c.PeerHello()
		if x.stop.Load() {
			return net.ErrClosed
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	x.again(1, "AllocMR", func(context.Context) error {
		mr, err := c.AllocMR("more", 64, verbs.AccessLocalWrite)
		if err == nil {
			err = mr.Close()
		}
		time.Sleep(10 * time.Millisecond)
		return err
	})
	for i, e := range []*end{c, s} {
		x.again(1, "notes", func(context.Context) error {
			ctx := x.t.Context() // a message cut short would end the conversation
			if i == 0 {
				if err := e.TCP().SendNote(ctx, oob.Note{Name: "n"}); err != nil {
					return err
				}
			} else if _, err := e.TCP().RecvNote(ctx, "n"); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
			return e.TCP().Barrier(ctx, "b")
		})
	}
	time.Sleep(length)
	x.stop.Store(true)
	var closing sync.WaitGroup
	closing.Go(func() { _ = c.Disconnect() })
	closing.Go(func() {
		if err := c.Close(); err != nil {
			x.t.Error(err)
		}
	})
	closing.Wait()
	if err := s.Close(); err != nil {
		x.t.Error(err)
	}
	x.all.Wait()
	done := binary.NativeEndian.Uint64(s.mr.Bytes()[8:])
	if sure := x.added.Load(); done < sure || done > sure+x.lost.Load() {
		x.t.Errorf("%d adds, of which %d completed and %d may have", done, sure, x.lost.Load())
	}
}

// add does one add. If its wait is cut short, add waits for the completion, to count each add once.
func (x *stress) add(ctx context.Context) error {
	_, err := x.c.FetchAdd(ctx, x.remote, 8, 1)
	result := err
	var flying *InFlightError
	if errors.As(err, &flying) {
		var wc verbs.WC
		if wc, result = flying.Wait(x.t.Context()); result == nil {
			result = wc.Err()
		} else {
			x.lost.Add(1)
		}
	}
	switch {
	case errors.As(result, new(*verbs.WCError)):
		x.lost.Add(1)
	case result == nil:
		x.added.Add(1)
	}
	return err
}

// own posts requests without Do, and takes their completions with WaitSend and WaitSends.
func (x *stress) own() {
	room := make(chan struct{}, 4)
	var next atomic.Uint64
	x.again(1, "PostSend", func(context.Context) error {
		if x.stop.Load() {
			return net.ErrClosed
		}
		select {
		case room <- struct{}{}:
		default:
			time.Sleep(time.Millisecond)
			return nil
		}
		wr := verbs.SendWR{ID: next.Add(1), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: x.remote.Addr, RKey: x.remote.RKey}
		if err := x.c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			<-room
			time.Sleep(time.Millisecond) // Do has all of the queue
		}
		return nil
	})
	x.again(1, "WaitSend", func(ctx context.Context) error {
		_, err := x.c.WaitSend(ctx)
		if err == nil {
			<-room
		}
		return err
	})
	x.again(1, "WaitSends", func(ctx context.Context) error {
		var wcs [2]verbs.WC
		n, err := x.c.WaitSends(ctx, wcs[:])
		for i := range wcs[:n] {
			if wcs[i].Status == verbs.WCSuccess && wcs[i].ID > next.Load() {
				return errors.Errorf("the completion of another: %+v", wcs[i])
			}
			<-room
		}
		return err
	})
}
