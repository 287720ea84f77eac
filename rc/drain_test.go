package rc

import (
	"context"
	stderrors "errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// pacedProvider has the device "paced0". The tests complete the requests of its completion queue.
type pacedProvider struct{}

func init() { verbs.Register(pacedProvider{}) }

func (pacedProvider) Name() string                         { return "paced" }
func (pacedProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (pacedProvider) Open(name string) (verbs.ProviderDevice, error) {
	if name != "paced0" {
		return nil, syscall.ENODEV
	}
	return &pacedDevice{}, nil
}

type pacedDevice struct {
	verbs.ProviderDevice
	cq pacedCQ
}

func (*pacedDevice) Close() error                         { return nil }
func (*pacedDevice) NextEvent() (verbs.AsyncEvent, error) { return verbs.AsyncEvent{}, net.ErrClosed }

func (*pacedDevice) CreateCompChannel() (verbs.ProviderCompChannel, error) {
	return pacedChannel{}, nil
}

func (d *pacedDevice) CreateCQ(init verbs.ProviderCQInit) (verbs.ProviderCQ, error) {
	d.cq.wake = init.Wake
	return &d.cq, nil
}

type pacedChannel struct{}

func (pacedChannel) Close() error { return nil }

type pacedCQ struct {
	verbs.ProviderCQ
	wake func()

	mu     sync.Mutex
	queued []verbs.WC
}

func (*pacedCQ) Depth() int     { return 64 }
func (*pacedCQ) Arm(bool) error { return nil }
func (*pacedCQ) Close() error   { return nil }

func (cq *pacedCQ) Poll(wcs []verbs.WC) (int, error) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	n := copy(wcs, cq.queued)
	cq.queued = cq.queued[n:]
	return n, nil
}

// complete completes n requests at a pace, as a device in ERR does.
func (cq *pacedCQ) complete(n int, pace time.Duration, status verbs.WCStatus) {
	for range n {
		time.Sleep(pace)
		cq.mu.Lock()
		cq.queued = append(cq.queued, verbs.WC{ID: 77, Status: status})
		cq.mu.Unlock()
		cq.wake()
	}
}

// pacedQueue returns the completion queue of "paced0". The end of the test closes it.
func pacedQueue(t *testing.T) *verbs.CQ {
	t.Helper()
	dev, err := verbs.Open("paced0")
	if err != nil {
		t.Fatal(err)
	}
	channel, err := dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: channel})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stderrors.Join(cq.Close(), channel.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	return cq
}

// TestDrainWaitsForSilence flushes a queue without a mark. The limit begins anew with each completion, and
// the context ends the flush of a queue that never falls silent. It also ends the wait for a mark that a
// program's own poll has taken.
func TestDrainWaitsForSilence(t *testing.T) {
	const pace = drainQuiet - time.Millisecond
	for name, test := range map[string]struct {
		marks       int
		completions int
		flushed     int
		took        time.Duration
	}{
		"a pause":  {0, 15, 15, 15*pace + drainQuiet},
		"no pause": {0, 50, int(drainLimit / pace), drainLimit},
		"nothing":  {0, 0, 0, drainQuiet},
		"no mark":  {1, 3, 3, drainLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cq := pacedQueue(t)
				c := &Conn{recvs: dispatch.New(cq).NewRoute(0, func(err error) { t.Error(err) }), markID: randomID()}
				c.recvs.ClaimRest()
				var device sync.WaitGroup
				device.Go(func() { verbs.ProviderOf(cq).(*pacedCQ).complete(test.completions, pace, verbs.WCWRFlushErr) })
				ctx, cancel := context.WithTimeout(t.Context(), drainLimit)
				defer cancel()
				began := time.Now()
				flushed, err := c.flush(ctx, c.recvs, test.marks, 1)
				if took := time.Since(began); flushed != test.flushed || err != nil || took != test.took {
					t.Errorf("%d flushed after %v, %v; want %d after %v", flushed, took, err, test.flushed, test.took)
				}
				device.Wait()
			})
		})
	}
}

// TestOwnFailuresComeBeforeThePeers has a peer that reports its failure before the NAK that caused it is here.
func TestOwnFailuresComeBeforeThePeers(t *testing.T) {
	for _, pace := range []time.Duration{0, drainQuiet - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c, peer := piped(t, Config{})
			cq := pacedQueue(t)
			d := dispatch.New(cq)
			c.makeRoutes(d, d)
			c.sends.ClaimRest()
			c.watchPeer()
			var failed sync.WaitGroup
			failed.Go(func() {
				peer.Fail("handler", errors.New("the client's request was refused"))
				verbs.ProviderOf(cq).(*pacedCQ).complete(1, pace, verbs.WCRemAccessErr)
			})
			var own *verbs.WCError
			if _, err := c.WaitSend(t.Context()); !errors.As(err, &own) || own.Status != verbs.WCRemAccessErr {
				t.Errorf("pace %v: %v, want the own completion", pace, err)
			}
			if _, err := c.WaitSend(t.Context()); !errors.As(err, new(*oob.PeerError)) {
				t.Errorf("pace %v: then %v, want the peer's failure", pace, err)
			}
			failed.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			peer.Close()
		})
	}
}

// TestAFullQueueIsDrained has no place for a mark in the receive queue.
func TestAFullQueueIsDrained(t *testing.T) {
	records := &recorder{}
	c, _ := pair(t, Config{Logger: slog.New(records)}, Config{})
	posted := 4 // by prepare
	for c.QP().PostRecv([]verbs.RecvWR{{ID: 77, SGL: []verbs.SGE{c.mr.SGE(0, slot)}}}) == nil {
		posted++
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := records.text("drained"), fmt.Sprintf("drained: %d work requests", posted); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
