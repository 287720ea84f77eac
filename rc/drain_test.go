package rc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

// flush completes n requests at a pace, as a device in ERR does.
func (cq *pacedCQ) flush(n int, pace time.Duration) {
	for range n {
		time.Sleep(pace)
		cq.mu.Lock()
		cq.queued = append(cq.queued, verbs.WC{ID: 77, Status: verbs.WCWRFlushErr})
		cq.mu.Unlock()
		cq.wake()
	}
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
				dev, err := verbs.Open("paced0")
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				channel, err := dev.CreateCompChannel()
				if err != nil {
					t.Fatal(err)
				}
				defer channel.Close()
				cq, err := dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: channel})
				if err != nil {
					t.Fatal(err)
				}
				defer cq.Close()
				c := &Conn{recvs: dispatch.New(cq).NewRoute(0, func(err error) { t.Error(err) }), markID: randomID()}
				c.recvs.ClaimRest()
				var device sync.WaitGroup
				device.Go(func() { dev.Provider().(*pacedDevice).cq.flush(test.completions, pace) })
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
