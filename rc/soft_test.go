//go:build !rdma

// Tests of behavior that rdma_rxe does not have.

package rc

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestAWaitThatSleepsAllocatesNothing waits before anything has completed.
func TestAWaitThatSleepsAllocatesNothing(t *testing.T) {
	if allocs := waitAllocations(t, 0); allocs != 0 {
		t.Errorf("%v allocations for posting 8 requests and waiting for them", allocs)
	}
}

// TestAnEventOfTheLastQueuePairEndsTheWaits has a peer WRITE without the right. rdma_rxe reports no
// event then.
func TestAnEventOfTheLastQueuePairEndsTheWaits(t *testing.T) {
	c, s := severalPair(t, 3, Config{}, Config{})
	wrong := c.writes(1)
	wrong[0].RKey++
	if err := c.QPs()[2].PostSend(wrong); err != nil {
		t.Fatal(err)
	}
	_, err := s.WaitSend(t.Context())
	var ae *AsyncError
	if !errors.As(err, &ae) || ae.Event.Type != verbs.EventQPAccessErr || ae.Event.QPN != s.QPs()[2].QPN() {
		t.Errorf("got %v, want IBV_EVENT_QP_ACCESS_ERR on QP %#x", err, s.QPs()[2].QPN())
	}
	if !strings.Contains(err.Error(), "the peer's completion says why") {
		t.Errorf("%v: no completion here says why", err)
	}
	flushed := &verbs.WCError{Status: verbs.WCWRFlushErr} // of a receive here
	for _, leads := range []string{"asynchronous event", "peer's completion"} {
		if !strings.Contains(flushed.Error(), leads) {
			t.Errorf("%v: does not name the %s", flushed, leads)
		}
	}
}

// TestAnEventOfItsQueuePairEndsFinish has a peer that is not done WRITE without the right.
func TestAnEventOfItsQueuePairEndsFinish(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	finished := make(chan error, 1)
	go func() { finished <- s.Finish(t.Context()) }()
	if _, err := c.WaitRecv(t.Context()); err != io.EOF {
		t.Fatalf("the peer is in Finish: %v", err)
	}
	wrong := c.writes(1)
	wrong[0].RKey++
	if err := c.QP().PostSend(wrong); err != nil {
		t.Fatal(err)
	}
	var ae *AsyncError
	if err := testkit.Receive(t, finished, "end of Finish"); !errors.As(err, &ae) || ae.Event.Type != verbs.EventQPAccessErr {
		t.Errorf("got %v, want IBV_EVENT_QP_ACCESS_ERR", err)
	}
}

// TestAtomicWriteAndFlush does both through a Conn whose peer's Config grants them.
func TestAtomicWriteAndFlush(t *testing.T) {
	const flush = verbs.AccessFlushGlobal
	var server end
	cfg := Config{Access: everyRight | flush, Prepare: func(c *Conn) (err error) {
		if server.mr, err = c.AllocMR("test", slot, everyRight|flush); err == nil {
			c.Share("test", server.mr)
		}
		return err
	}}
	c, _ := pair(t, Config{}, cfg)
	remote, _ := c.PeerRegion("test")
	copy(c.mr.Bytes(), "8 bytes!")
	wr := verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: remote.Addr + 8, RKey: remote.RKey}
	if _, err := c.Do(t.Context(), &wr); err != nil {
		t.Error(err)
	}
	wr = verbs.SendWR{Opcode: verbs.OpFlush, RemoteAddr: remote.Addr, RKey: remote.RKey, Flush: verbs.Flush{Type: verbs.FlushGlobal, Level: verbs.FlushRange, Length: 16}}
	if _, err := c.Do(t.Context(), &wr); err != nil {
		t.Error(err)
	}
	if got := string(server.mr.Bytes()[8:16]); got != "8 bytes!" {
		t.Errorf("the word is %q", got)
	}
}

// TestThePostPathIsTheConfigs checks that a soft device refuses the ibv_wr_* calls, which it lacks.
func TestThePostPathIsTheConfigs(t *testing.T) {
	_, _, err, _ := dialPair(t, Config{PostPath: verbs.PostWRAPI}, Config{})
	if !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("got %v", err)
	}
}

// TestAFailedReceiveIsGivenBack has a message that is too long for its receive. The verbs leave the
// opcode of a failed completion undefined.
func TestAFailedReceiveIsGivenBack(t *testing.T) {
	dev, faults := openFaulty(t)
	faults.noOpcodes = true
	unread := make(chan verbs.WC, 8)
	failed := make(chan struct{})
	cfg := ServerConfig{Config: Config{Device: dev, OneCQ: true, SRQ: &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}}, Unread: func(wc verbs.WC) { unread <- wc }}
	s := serve(t, cfg, func(context.Context, *Conn) error {
		<-failed
		return errors.New("enough")
	})
	if err := s.SRQ().PostRecv([]verbs.RecvWR{{ID: 100, SGL: []verbs.SGE{s.region.SGE(0, slot)}}}); err != nil {
		t.Fatal(err)
	}
	c, mr := s.mustClient(t)
	if err := c.Send(t.Context(), mr.Slice(0, slot+1)); err == nil {
		t.Error("the message fits")
	}
	close(failed)
	<-c.Context().Done()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	close(unread)
	if wc := <-unread; wc.ID != 100 || wc.Status != verbs.WCLocLenErr {
		t.Errorf("Unread got %+v, want the failed receive", wc)
	}
	if wc, more := <-unread; more {
		t.Errorf("Unread got %+v, too", wc)
	}
}
