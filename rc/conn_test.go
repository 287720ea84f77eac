package rc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// end is one end of a test's connection: its memory, and four receives posted.
type end struct {
	*Conn
	mr *verbs.MR
}

const slot = 1024 // bytes of each receive; the end's region has eight slots

func (e *end) prepare(c *Conn) (err error) {
	e.Conn = c
	if e.mr, err = c.AllocMR("test", 8*slot, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead); err != nil {
		return err
	}
	c.Share("test", e.mr)
	for i := range 4 {
		if err := c.QP().PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{e.mr.SGE(i*slot, slot)}}}); err != nil {
			return err
		}
	}
	return nil
}

// post posts one signaled request that names the region's fifth slot.
func (e *end) post(t *testing.T, wr verbs.SendWR, n int) {
	t.Helper()
	wr.Flags |= verbs.SendSignaled
	if n > 0 {
		wr.SGL = []verbs.SGE{e.mr.SGE(4*slot, n)}
	}
	if err := e.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
}

// dialPair connects two ends, on the client's device if it has one; the errors are the
// client's and the server's.
func dialPair(t testing.TB, client, server Config) (c, s *end, cerr, serr error) {
	dev := client.Device
	if dev == nil {
		dev = softtest.Open(t)
	}
	ctx := testkit.Context(t)
	client.Device, server.Device = dev, dev
	for _, cfg := range []*Config{&client, &server} {
		if cfg.Access == 0 {
			cfg.Access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
		}
	}
	c, s = &end{}, &end{}
	if client.Prepare == nil {
		client.Prepare = c.prepare
	}
	if server.Prepare == nil {
		server.Prepare = s.prepare
	}
	l, err := Listen(ctx, "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		var in *Incoming
		if in, serr = l.Accept(ctx); serr != nil {
			return
		}
		if _, serr = in.Hello(ctx); serr != nil {
			in.Refuse(serr)
			return
		}
		s.Conn, serr = in.Connect(ctx, server)
	}()
	c.Conn, cerr = Dial(ctx, l.Addr().String(), client)
	testkit.Receive(t, served, "end of Connect")
	for _, e := range []*end{c, s} {
		if e.Conn != nil {
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
	return c, s, cerr, serr
}

func pair(t testing.TB, client, server Config) (c, s *end) {
	t.Helper()
	c, s, cerr, serr := dialPair(t, client, server)
	if cerr != nil || serr != nil {
		t.Fatalf("client: %v; server: %v", cerr, serr)
	}
	return c, s
}

func TestSendBothWaysAndFinish(t *testing.T) {
	c, s := pair(t, Config{Job: "test"}, Config{})
	for i, way := range []struct{ from, to *end }{{c, s}, {s, c}, {c, s}} {
		text := fmt.Sprintf("message %d", i)
		n := copy(way.from.mr.Bytes()[4*slot:], text)
		way.from.post(t, verbs.SendWR{ID: 9, Opcode: verbs.OpSend}, n)
		if wc, err := way.from.WaitSend(t.Context()); err != nil || wc.ID != 9 {
			t.Fatalf("send %d: %+v, %v", i, wc, err)
		}
		wc, err := way.to.WaitRecv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := string(way.to.mr.Bytes()[wc.ID*slot:][:wc.ByteLen]); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if s.PeerHello().Job != "test" || c.LocalEndpoints()[0].PSN != s.PeerEndpoints()[0].PSN || c.LocalEndpoints()[0].QPN != s.PeerEndpoints()[0].QPN {
		t.Errorf("the server knows %+v of %+v", s.PeerEndpoints()[0], c.LocalEndpoints()[0])
	}
	done := make(chan error, 1)
	go func() { done <- s.Finish(t.Context()) }()
	if err := c.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, done, "end of the peer's Finish"); err != nil {
		t.Error(err)
	}
}

func TestWriteIntoTheSharedRegion(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	region, ok := c.PeerRegion("test")
	if !ok || region.Length != 8*slot || region.RKey != s.mr.RKey() {
		t.Fatalf("region %+v", region)
	}
	copy(c.mr.Bytes()[4*slot:], "written")
	c.post(t, verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, RemoteAddr: region.Addr + 7*slot, RKey: region.RKey, Imm: 0xcafe}, 7)
	if _, err := c.WaitSend(t.Context()); err != nil {
		t.Fatal(err)
	}
	wc, err := s.WaitRecv(t.Context())
	if err != nil || wc.Imm() != 0xcafe || string(s.mr.Bytes()[7*slot:7*slot+7]) != "written" {
		t.Errorf("%+v, %v", wc, err)
	}
	if _, ok := c.PeerRegion("nothing"); ok {
		t.Error("a region that was not shared is known")
	}
}

func TestTheSmallerMTUIsUsed(t *testing.T) {
	_, s := pair(t, Config{MTU: 256}, Config{})
	attr, err := s.QP().Query(qpstate.MaskPathMTU)
	if err != nil || attr.PathMTU != qpstate.MTU256 {
		t.Errorf("the device has %v, %v", attr.PathMTU, err)
	}
}

func TestAPeerThatClosesEndsTheWait(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	time.AfterFunc(testkit.Moment, func() { s.Close() })
	_, err := c.WaitRecv(t.Context())
	var ce *oob.ClosedError
	if !errors.As(err, &ce) {
		t.Errorf("got %v", err)
	}
}

func TestAPeerThatFailsSaysWhy(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	s.TCP().Fail("job", errors.New("the disk is full"))
	_, err := c.WaitRecv(t.Context())
	var pe *oob.PeerError
	if !errors.As(err, &pe) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
}

func TestAWaitEndsWithItsContextAndWithClose(t *testing.T) {
	c, _ := pair(t, Config{}, Config{})
	if _, err := c.WaitRecv(testkit.Expiring(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	time.AfterFunc(testkit.Moment, func() { c.Close() })
	if _, err := c.WaitRecv(t.Context()); err == nil {
		t.Error("a wait outlived Close")
	}
}

func TestThePeerGetsAFailureInPrepare(t *testing.T) {
	_, _, cerr, serr := dialPair(t, Config{}, Config{Prepare: func(*Conn) error { return errors.New("no buffers today") }})
	var pe *oob.PeerError
	if !errors.As(cerr, &pe) || !strings.Contains(cerr.Error(), "no buffers today") || pe.Step != "prepare" {
		t.Errorf("client: %v", cerr)
	}
	if serr == nil || !strings.Contains(serr.Error(), "prepare: no buffers today") {
		t.Errorf("server: %v", serr)
	}
}

func TestAWrongChoiceFailsBeforeAPeerIsInvolved(t *testing.T) {
	dev := softtest.Open(t)
	nine := 99
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"GID index":   {Config{GIDIndex: &nine}, "GID index 99"},
		"port":        {Config{Port: 7}, "port 7"},
		"MTU":         {Config{MTU: 1500}, "path MTU 1500"},
		"MTU too big": {Config{MTU: 8192}, "path MTU 8192"},
	} {
		if err := c.cfg.Check(dev); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{}).Check(dev); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

func TestAMessageLongerThanTheReceive(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	c.post(t, verbs.SendWR{Opcode: verbs.OpSend}, slot+1)
	_, err := c.WaitSend(t.Context())
	var we *verbs.WCError
	if !errors.As(err, &we) || we.Status != verbs.WCRemInvReqErr && we.Status != verbs.WCRemOpErr { // rdma_rxe: the latter
		t.Errorf("client: %v", err)
	}
	if _, err := s.WaitRecv(t.Context()); !errors.As(err, &we) {
		t.Errorf("server: %v", err)
	}
}

func TestAPeerThatDoesNotAnswer(t *testing.T) {
	timing := Timing{Timeout: 8, RetryCnt: 1, RNRRetry: 1, MinRNRTimer: 1}
	c, s := pair(t, Config{Timing: &timing}, Config{})
	if err := s.QP().Modify(&verbs.QPAttr{State: qpstate.Reset}, qpstate.MaskState); err != nil {
		t.Fatal(err)
	}
	s.pairs[0].machine.Observed(qpstate.Reset)
	c.post(t, verbs.SendWR{Opcode: verbs.OpSend}, 1)
	_, err := c.WaitSend(t.Context())
	var we *verbs.WCError
	if !errors.As(err, &we) || we.Status != verbs.WCRetryExcErr {
		t.Errorf("got %v", err)
	}
}

func TestAPeerWithoutReceives(t *testing.T) {
	timing := Timing{Timeout: 14, RetryCnt: 1, RNRRetry: 1, MinRNRTimer: 1}
	c, _ := pair(t, Config{Timing: &timing}, Config{Prepare: func(*Conn) error { return nil }})
	c.post(t, verbs.SendWR{Opcode: verbs.OpSend}, 1)
	_, err := c.WaitSend(t.Context())
	var we *verbs.WCError
	if !errors.As(err, &we) || we.Status != verbs.WCRNRRetryExcErr {
		t.Errorf("got %v", err)
	}
}

func TestIPOf(t *testing.T) {
	if a := ipOf(nil); a != (netip.Addr{}) {
		t.Errorf("nil is %v", a)
	}
}

// TestCloseWhileOthersWait has goroutines that wait on both queues. If they take Close's mark, Close
// must not take that for a device that does not flush. TestDrainWaitsForSilence has that case for sure.
func TestCloseWhileOthersWait(t *testing.T) {
	c, _ := pair(t, Config{}, Config{})
	var waiters sync.WaitGroup
	for _, wait := range []func() error{
		func() error { _, err := c.WaitSend(context.Background()); return err },
		func() error { _, err := c.WaitRecv(context.Background()); return err },
	} {
		waiters.Go(func() {
			if err := wait(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a wait of the Conn's: %v", err)
			}
		})
	}
	for _, cq := range []*verbs.CQ{c.QP().SendCQ(), c.QP().RecvCQ()} {
		waiters.Go(func() {
			for {
				if _, err := cq.Wait(context.Background(), make([]verbs.WC, 1)); err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("a wait on the CQ itself: %v", err)
					}
					return
				}
			}
		})
	}
	time.Sleep(time.Millisecond) // for some to be asleep; more or fewer is as well
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	waiters.Wait()
}

func TestAllocMRMeetsClose(t *testing.T) {
	c, _ := pair(t, Config{}, Config{})
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for {
				if _, err := c.AllocMR("another", 4096, 0); err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("got %v", err)
					}
					return
				}
			}
		})
	}
	time.Sleep(time.Millisecond)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	makers.Wait()
}

// TestFinishLeavesWaitsAlone has a receive outstanding when only this end has called Finish.
func TestFinishLeavesWaitsAlone(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	got := make(chan error, 1)
	go func() {
		_, err := c.WaitRecv(t.Context())
		got <- err
	}()
	finished := make(chan error, 1)
	go func() { finished <- c.Finish(t.Context()) }()
	testkit.Receive(t, s.recvCtx.Done(), "arrival of the Finish")
	s.post(t, verbs.SendWR{Opcode: verbs.OpSend}, 1)
	if err := testkit.Receive(t, got, "end of the wait"); err != nil {
		t.Errorf("the wait: %v", err)
	}
	if err := s.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, finished, "end of Finish"); err != nil {
		t.Error(err)
	}
}

// flushes checks that all marks come, so that Close waits for none in vain.
func (c *Conn) flushes(t *testing.T) {
	t.Helper()
	ctx := testkit.Context(t)
	if err := c.moveToErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.flushAll(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("the flush: %v; it waited for a mark that never came: %v", err, ctx.Err() != nil)
	}
}

// TestDisconnectFlushes checks that the requests of the end that disconnects are flushed to its waits,
// that the peer's are not, and that Close then waits for no mark in vain.
func TestDisconnectFlushes(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	for _, e := range []*end{s, c} {
		if err := e.Disconnect(); err != nil {
			t.Fatal(err)
		}
		if err := e.Disconnect(); err != nil {
			t.Errorf("again: %v", err)
		}
		for i := range 4 {
			wc, err := e.WaitRecv(t.Context())
			var we *verbs.WCError
			if !errors.As(err, &we) || we.Status != verbs.WCWRFlushErr || wc.ID != uint64(i) {
				t.Errorf("receive %d: %+v, %v", i, wc, err)
			}
		}
		if e == s {
			if n, err := c.QP().RecvCQ().Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
				t.Errorf("the peer's receives: %d completions, %v", n, err)
			}
		}
	}
	c.flushes(t)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Disconnect(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestMemoryOfSeveralConnections registers the same bytes twice.
func TestMemoryOfSeveralConnections(t *testing.T) {
	shared := make([]byte, 4096)
	register := func(c *Conn) error {
		mr, err := c.RegMR("shared", shared, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		if err == nil {
			c.Share("shared", mr)
		}
		return err
	}
	for i := range 2 {
		c, _ := pair(t, Config{}, Config{Prepare: register})
		local, err := c.AllocMR("local", 8, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(local.Bytes(), fmt.Sprintf("client %d", i))
		region, _ := c.PeerRegion("shared")
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{local.SGE(0, 8)},
			RemoteAddr: region.Addr + uint64(i)*8, RKey: region.RKey}
		if err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WaitSend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(shared[:16]); got != "client 0client 1" {
		t.Errorf("the memory holds %q", got)
	}
}

func TestNotes(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	if err := c.TCP().SendNote(t.Context(), oob.Note{Name: "sum", Data: []byte("12")}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.TCP().RecvNote(t.Context(), "sum"); err != nil || string(n.Data) != "12" {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestNoAccessIsGrantedUnasked checks that a Config without Access protects a region with all rights.
func TestNoAccessIsGrantedUnasked(t *testing.T) {
	dev := softtest.Open(t)
	s := &end{}
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { // and stays open: to close it would race with the client's completion
		in, err := l.Accept(t.Context())
		if err == nil {
			if _, err = in.Hello(t.Context()); err == nil {
				s.Conn, err = in.Connect(t.Context(), Config{Device: dev, Prepare: s.prepare})
			}
		}
		served <- err
	}()
	c := &end{}
	conn, err := Dial(t.Context(), l.Addr().String(), Config{Device: dev, Prepare: c.prepare})
	if serr := testkit.Receive(t, served, "end of Connect"); err != nil || serr != nil {
		t.Fatalf("client: %v; server: %v", err, serr)
	}
	defer s.Close()
	defer conn.Close()
	if err := c.QP().PostSend(c.writes(1)); err != nil {
		t.Fatal(err)
	}
	wc, err := c.WaitSend(t.Context())
	if wc.Status != verbs.WCRemInvReqErr && wc.Status != verbs.WCRemAccessErr {
		t.Errorf("%+v, %v", wc, err)
	}
}
