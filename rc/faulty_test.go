package rc

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// faulty is the device under test with faults: asynchronous events of the test's own, and calls that fail
// or block.
type faulty struct {
	verbs.ProviderDevice
	under  *verbs.Device
	events chan verbs.AsyncEvent
	closed chan struct{}

	noWindows bool                         // the device reports no windows of type 2B
	modify    func(to *verbs.QPAttr) error // runs before each Modify, and may fail it; nil does nothing
	noOpcodes bool                         // failed completions have the opcode of a SEND
	createAH  func()                       // runs before each CreateAH; nil does nothing

	mu      sync.Mutex
	srqs    []verbs.ProviderSRQ // made of it
	regions int                 // registered
	domains int                 // made
	cqs     int
}

// made returns the numbers of regions, domains and completion queues made.
func (f *faulty) made() (regions, domains, cqs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.regions, f.domains, f.cqs
}

func (f *faulty) QueryDevice() (verbs.DeviceAttr, error) {
	attr, err := f.ProviderDevice.QueryDevice()
	if f.noWindows {
		attr.CapFlags &^= verbs.CapMemWindowType2B
	}
	return attr, err
}

// openFaulty opens a faulty device. The end of the test closes it.
func openFaulty(t *testing.T) (*verbs.Device, *faulty) {
	t.Helper()
	dev, err := verbs.Open(faultyPrefix + softtest.Name(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev, verbs.ProviderOf(dev).(*faulty)
}

const faultyPrefix = "faulty:"

type faultyProvider struct{}

func init() { verbs.Register(faultyProvider{}) }

func (faultyProvider) Name() string                         { return "faulty" }
func (faultyProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (faultyProvider) Open(name string) (verbs.ProviderDevice, error) {
	name, ok := strings.CutPrefix(name, faultyPrefix)
	if !ok {
		return nil, syscall.ENODEV
	}
	under, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	return &faulty{ProviderDevice: verbs.ProviderOf(under), under: under,
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

// report delivers the events, and then one about the port, to all subscribers.
func (f *faulty) report(events ...verbs.AsyncEvent) {
	for _, e := range append(events, verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}) {
		f.events <- e // taken when the one before was delivered
	}
}

func (f *faulty) CreateCQ(init verbs.ProviderCQInit) (verbs.ProviderCQ, error) {
	cq, err := f.ProviderDevice.CreateCQ(init)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cqs++
	if f.noOpcodes {
		return &opcodelessCQ{cq}, nil
	}
	return cq, nil // with its optional interfaces, which on libibverbs a wait needs
}

func (f *faulty) AllocPD() (verbs.ProviderPD, error) {
	pd, err := f.ProviderDevice.AllocPD()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.domains++
	return &faultyPD{pd, f}, nil
}

type faultyPD struct {
	verbs.ProviderPD
	of *faulty
}

func (pd *faultyPD) RegMR(buf []byte, iova uint64, access verbs.Access) (verbs.ProviderMR, error) {
	pd.of.mu.Lock()
	defer pd.of.mu.Unlock()
	pd.of.regions++
	return pd.ProviderPD.RegMR(buf, iova, access)
}

func (pd *faultyPD) CreateSRQ(init verbs.SRQInit) (verbs.ProviderSRQ, error) {
	srq, err := pd.ProviderPD.CreateSRQ(init)
	pd.of.mu.Lock()
	defer pd.of.mu.Unlock()
	pd.of.srqs = append(pd.of.srqs, srq)
	return srq, err
}

func (pd *faultyPD) CreateQP(init verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	if cq, ok := init.SendCQ.(*opcodelessCQ); ok {
		init.SendCQ, init.RecvCQ = cq.ProviderCQ, init.RecvCQ.(*opcodelessCQ).ProviderCQ
	}
	qp, err := pd.ProviderPD.CreateQP(init)
	if err != nil || pd.of.modify == nil {
		return qp, err
	}
	return &faultyQP{qp, pd.of.modify}, nil
}

func (pd *faultyPD) CreateAH(attr verbs.AHAttr) (verbs.ProviderAH, error) {
	if pd.of.createAH != nil {
		pd.of.createAH()
	}
	return pd.ProviderPD.CreateAH(attr)
}

type faultyQP struct {
	verbs.ProviderQP
	before func(*verbs.QPAttr) error
}

func (qp *faultyQP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if err := qp.before(attr); err != nil {
		return err
	}
	return qp.ProviderQP.Modify(attr, mask)
}

// opcodelessCQ gives all failed completions the opcode of a SEND.
type opcodelessCQ struct{ verbs.ProviderCQ }

func (cq *opcodelessCQ) Poll(wcs []verbs.WC) (int, error) {
	n, err := cq.ProviderCQ.Poll(wcs)
	for i := range wcs[:n] {
		if wcs[i].Status != verbs.WCSuccess {
			wcs[i].Opcode = verbs.WCSend
		}
	}
	return n, err
}

// An event of an object of another connection does not end the connection.
func TestEventsOfOtherObjectsDoNotEndTheConn(t *testing.T) {
	dev, faults := openFaulty(t)
	records := &recorder{}
	srq := &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}
	none := func(*Conn) error { return nil }
	c, s := pair(t, Config{Device: dev, Prepare: none, Logger: slog.New(records)}, Config{Device: dev, Prepare: none, SRQ: srq, Access: verbs.AccessRemoteWrite})
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	other, err := pd.CreateSRQ(*srq)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	faults.report(
		verbs.ProviderEvent(verbs.EventSRQErr, faults.srqs[1]),
		verbs.AsyncEvent{Type: verbs.EventSRQErr}, // of one that is closed since
		verbs.ProviderEvent(verbs.EventSRQLimitReached, faults.srqs[1]),
		verbs.AsyncEvent{Type: verbs.EventWQFatal},
		verbs.AsyncEvent{Type: verbs.EventCQErr},
		verbs.AsyncEvent{Type: verbs.EventQPFatal, QPN: 0xabcdef},
	)
	for name, end := range map[string]*end{"without an SRQ": c, "with an SRQ": s} {
		if err := end.Context().Err(); err != nil {
			t.Errorf("%s: another's event ended the connection", name)
		}
	}
	faults.report(verbs.ProviderEvent(verbs.EventSRQErr, faults.srqs[0]))
	if c.Context().Err() != nil || s.Context().Err() == nil {
		t.Fatalf("the server's SRQ failed: client's context %v, server's %v", c.Context().Err(), s.Context().Err())
	}
	_, err = s.WaitRecv(t.Context())
	if err == nil || !strings.Contains(err.Error(), "IBV_EVENT_SRQ_ERR on an SRQ") || strings.Contains(err.Error(), "the queue pair is in ERR") {
		t.Errorf("got %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"IBV_EVENT_SRQ", "IBV_EVENT_WQ", "IBV_EVENT_QP"} {
		if records.count(name) != 0 {
			t.Errorf("the client's Logger got another's %s…", name)
		}
	}
	if records.count("IBV_EVENT_GID_CHANGE on port 1") == 0 {
		t.Errorf("the client's Logger got no event of its port: %q", records.texts)
	}
}

// TestABlockedLoggerHoldsUpNobody checks that a Logger that blocks in an asynchronous event holds up
// only its own connection.
func TestABlockedLoggerHoldsUpNobody(t *testing.T) {
	dev, faults := openFaulty(t)
	stuck := &stuckLogger{in: make(chan struct{}), out: make(chan struct{})}
	c, s := pair(t, Config{Device: dev, Logger: slog.New(stuck)}, Config{Device: dev})
	release := sync.OnceFunc(func() { close(stuck.out) })
	t.Cleanup(release)
	go faults.report()
	<-stuck.in
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := testkit.Receive(t, closed, "return of Close, although another connection's Logger is stuck"); err != nil {
		t.Error(err)
	}
	release()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if !stuck.passed {
		t.Error("Close did not wait for the event's record")
	}
}

// stuckLogger is a handler that keeps the record of an asynchronous event until out is
// closed.
type stuckLogger struct {
	recorder
	in, out chan struct{}
	passed  bool
}

func (s *stuckLogger) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s *stuckLogger) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "IBV_EVENT_") {
		close(s.in)
		<-s.out
		s.passed = true
	}
	return s.recorder.Handle(ctx, r)
}

// TestAMarkIsNotTheProgramsRequest checks that Close takes no request of the program for a mark.
func TestAMarkIsNotTheProgramsRequest(t *testing.T) {
	records := &recorder{}
	c, _ := pair(t, Config{Logger: slog.New(records)}, Config{})
	for _, id := range slices.Repeat([]uint64{1<<64 - 1}, 5) {
		if err := c.QP().PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{c.mr.SGE(0, slot)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := records.text("drained"); !strings.HasPrefix(got, "drained: 9 work requests") {
		t.Errorf("%q, want the 9 that were posted", got)
	}
}
