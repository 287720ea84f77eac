package rc

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// faulty is the test's device with faults to order: asynchronous events that a test
// makes up, and completion queues that give one completion at a time, each some time
// after the last.
type faulty struct {
	verbs.DeviceProvider
	under  *verbs.Device
	events chan verbs.AsyncEvent
	closed chan struct{}
	pause  time.Duration // between two completions; 0 is none

	mu   sync.Mutex
	srqs []verbs.SRQProvider // made of it
}

// openFaulty opens one; the test's end closes it.
func openFaulty(t *testing.T, pause time.Duration) (*verbs.Device, *faulty) {
	t.Helper()
	faultyPause = pause
	dev, err := verbs.Open(faultyPrefix + testDevice(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev, dev.Provider().(*faulty)
}

const faultyPrefix = "faulty:"

var faultyPause time.Duration // of the next device opened

type faultyProvider struct{}

func init() { verbs.Register(faultyProvider{}) }

func (faultyProvider) Name() string                         { return "faulty" }
func (faultyProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (faultyProvider) Open(name string) (verbs.DeviceProvider, error) {
	name, ok := strings.CutPrefix(name, faultyPrefix)
	if !ok {
		return nil, syscall.ENODEV
	}
	under, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	return &faulty{DeviceProvider: under.Provider(), under: under, pause: faultyPause,
		events: make(chan verbs.AsyncEvent), closed: make(chan struct{})}, nil
}

func (f *faulty) NextEvent() (verbs.AsyncEvent, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-f.closed:
		return verbs.AsyncEvent{}, net.ErrClosed
	}
}

func (f *faulty) Close() error {
	close(f.closed)
	return f.under.Close()
}

// report has all subscribers told of the events before it returns, and then of one about
// the port.
func (f *faulty) report(events ...verbs.AsyncEvent) {
	for _, e := range append(events, verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}) {
		f.events <- e // taken when the one before was told
	}
}

func (f *faulty) CreateCQ(init verbs.CQInitProvider) (verbs.CQProvider, error) {
	cq, err := f.DeviceProvider.CreateCQ(init)
	if err != nil {
		return nil, err
	}
	return &faultyCQ{CQProvider: cq, pause: f.pause, wake: init.Wake}, nil
}

func (f *faulty) AllocPD() (verbs.PDProvider, error) {
	pd, err := f.DeviceProvider.AllocPD()
	if err != nil {
		return nil, err
	}
	return &faultyPD{pd, f}, nil
}

type faultyPD struct {
	verbs.PDProvider
	of *faulty
}

func (pd *faultyPD) CreateSRQ(init verbs.SRQInit) (verbs.SRQProvider, error) {
	srq, err := pd.PDProvider.CreateSRQ(init)
	pd.of.mu.Lock()
	defer pd.of.mu.Unlock()
	pd.of.srqs = append(pd.of.srqs, srq)
	return srq, err
}

func (pd *faultyPD) CreateQP(init verbs.QPInitProvider) (verbs.QPProvider, error) {
	init.SendCQ, init.RecvCQ = init.SendCQ.(*faultyCQ).CQProvider, init.RecvCQ.(*faultyCQ).CQProvider
	return pd.PDProvider.CreateQP(init)
}

type faultyCQ struct {
	verbs.CQProvider
	pause time.Duration
	wake  func()
	mu    sync.Mutex
	last  time.Time
}

func (cq *faultyCQ) Poll(wcs []verbs.WC) (int, error) {
	if cq.pause == 0 {
		return cq.CQProvider.Poll(wcs)
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if rest := cq.pause - time.Since(cq.last); rest > 0 {
		time.AfterFunc(rest, cq.wake)
		return 0, nil
	}
	n, err := cq.CQProvider.Poll(wcs[:1])
	if n > 0 {
		cq.last = time.Now()
	}
	return n, err
}

// TestDrainWaitsForSilence: a queue without a mark is flushed when nothing has come for a
// while, not after a while in all.
func TestDrainWaitsForSilence(t *testing.T) {
	dev, _ := openFaulty(t, drainQuiet/5)
	told := &recorder{}
	c, _ := pair(t, Config{Device: dev, Logger: slog.New(told)}, Config{Device: dev})
	posted := 4 // by prepare
	for ; ; posted++ {
		if c.QP().PostRecv([]verbs.RecvWR{{ID: 77, SGL: []verbs.SGE{c.mr.SGE(0, slot)}}}) != nil {
			break // there is no place for a mark either
		}
	}
	if posted > 50 {
		t.Fatalf("a receive queue of %d takes too long to drain", posted)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := told.text("drained"), fmt.Sprintf("drained: %d work requests", posted); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %d", got, posted)
	}
}

// TestAMarkIsNotTheProgramsRequest: no ID of the program's is taken for a mark.
func TestAMarkIsNotTheProgramsRequest(t *testing.T) {
	told := &recorder{}
	c, _ := pair(t, Config{Logger: slog.New(told)}, Config{})
	for _, id := range slices.Repeat([]uint64{1<<64 - 1}, 5) {
		if err := c.QP().PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{c.mr.SGE(0, slot)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := told.text("drained"); !strings.HasPrefix(got, "drained: 9 work requests") {
		t.Errorf("%q, want the 9 that were posted", got)
	}
}
