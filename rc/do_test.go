package rc

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

const everyRight = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// doPair connects two ends whose regions grant every right; no receives are posted.
func doPair(t testing.TB, client, server Config) (c, s *end, remote oob.Region) {
	t.Helper()
	ends := [2]*end{}
	for i, cfg := range []*Config{&client, &server} {
		e := &end{}
		ends[i] = e
		cfg.Prepare = func(conn *Conn) (err error) {
			e.Conn = conn
			if e.mr, err = conn.AllocMR("test", 8*slot, everyRight); err == nil {
				conn.Share("test", e.mr)
			}
			return err
		}
	}
	pc, ps := pair(t, client, server)
	ends[0].Conn, ends[1].Conn = pc.Conn, ps.Conn
	remote, ok := pc.PeerRegion("test")
	if !ok {
		t.Fatal("no region")
	}
	return ends[0], ends[1], remote
}

func TestDoMovesData(t *testing.T) {
	c, s, remote := doPair(t, Config{}, Config{})
	ctx := t.Context()
	copy(c.mr.Bytes(), "written")
	if err := c.Write(ctx, c.mr.Slice(0, 7), remote, slot); err != nil || string(s.mr.Bytes()[slot:slot+7]) != "written" {
		t.Errorf("Write: %q, %v", s.mr.Bytes()[slot:slot+7], err)
	}
	if err := c.Read(ctx, c.mr.Slice(slot, 7), remote, slot); err != nil || string(c.mr.Bytes()[slot:slot+7]) != "written" {
		t.Errorf("Read: %q, %v", c.mr.Bytes()[slot:slot+7], err)
	}
	for _, send := range []func() error{
		func() error { return c.Send(ctx, c.mr.Slice(0, 7)) },
		func() error { return c.WriteImm(ctx, c.mr.Slice(0, 7), remote, 0, 0xcafe) },
		func() error { return c.WriteImm(ctx, verbs.MRSlice{}, remote, 0, 0xcafe) },
	} {
		sent := make(chan error, 1)
		go func() { sent <- send() }()
		wc, err := s.Recv(ctx, s.mr.Slice(2*slot, slot))
		if err != nil || wc.Flags&verbs.WCWithImm != 0 && wc.Imm() != 0xcafe || wc.Opcode == verbs.WCRecv && wc.ByteLen != 7 {
			t.Errorf("Recv: %+v, %v", wc, err)
		}
		if err := testkit.Receive(t, sent, "end of Send"); err != nil {
			t.Error(err)
		}
	}
	binary.NativeEndian.PutUint64(s.mr.Bytes()[8:], 40)
	for i, do := range []func() (uint64, error){
		func() (uint64, error) { return c.FetchAdd(ctx, remote, 8, 2) },
		func() (uint64, error) { return c.CompareSwap(ctx, remote, 8, 41, 0) },
		func() (uint64, error) { return c.CompareSwap(ctx, remote, 8, 42, 7) },
		func() (uint64, error) { return c.FetchAdd(ctx, remote, 8, 0) },
	} {
		if before, err := do(); err != nil || before != []uint64{40, 42, 42, 7}[i] {
			t.Errorf("atomic %d: %d, %v", i, before, err)
		}
	}
	wc, err := c.Do(ctx, &verbs.SendWR{ID: 77, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: remote.Addr, RKey: remote.RKey})
	if err != nil || wc.ID != 77 || wc.Opcode != verbs.WCRDMARead {
		t.Errorf("Do: %+v, %v", wc, err)
	}
}

// TestRefusedBeforePosting checks the error of each misuse, and that the connection still works.
func TestRefusedBeforePosting(t *testing.T) {
	c, _, remote := doPair(t, Config{}, Config{})
	ctx := t.Context()
	readOnly, err := c.AllocMR("source", slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := 8 * slot
	ended, cancel := context.WithCancelCause(ctx)
	gone := errors.New("nobody wants it")
	cancel(gone)
	var early error
	pair(t, Config{Prepare: func(conn *Conn) error { early = conn.Send(ctx, verbs.MRSlice{}); return nil }}, Config{})
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"beyond the local region":   {c.Write(ctx, c.mr.Slice(all-8, 9), remote, 0), "9 bytes at offset 8184 are not within the local region of 8192 bytes"},
		"before the local region":   {c.Send(ctx, c.mr.Slice(-1, 9)), "9 bytes at offset -1 are not within"},
		"less than nothing":         {c.Send(ctx, c.mr.Slice(0, -1)), "-1 bytes at offset 0 are not within"},
		"a WRITE of nothing":        {c.Write(ctx, verbs.MRSlice{}, remote, 0), "IBV_WR_RDMA_WRITE: 0 bytes at offset 0 of no region; try: MR.Slice of a region"},
		"a READ into nothing":       {c.Read(ctx, verbs.MRSlice{}, remote, 0), "IBV_WR_RDMA_READ: 0 bytes at offset 0 of no region"},
		"no local region":           {c.Send(ctx, verbs.MRSlice{Len: 3}), "3 bytes at offset 0 of no region"},
		"beyond the peer's region":  {c.Read(ctx, c.mr.Slice(0, 9), remote, all-8), `IBV_WR_RDMA_READ: 9 bytes at offset 8184 are not within the peer's region "test" of 8192 bytes`},
		"before the peer's region":  {c.Read(ctx, c.mr.Slice(0, 9), remote, -1), `9 bytes at offset -1 are not within the peer's region`},
		"an atomic at the end":      {errOf(c.FetchAdd(ctx, remote, all, 1)), `8 bytes at offset 8192 are not within`},
		"an unaligned atomic":       {errOf(c.FetchAdd(ctx, remote, 4, 1)), "not a multiple of 8"},
		"an unaligned swap":         {errOf(c.CompareSwap(ctx, remote, 9, 1, 2)), "not a multiple of 8"},
		"an unaligned atomic of Do": {errOf(c.Do(ctx, &verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, RemoteAddr: remote.Addr + 1})), "not a multiple of 8"},
		"READ into memory to send":  {c.Read(ctx, readOnly.Slice(0, 8), remote, 0), "lacks LOCAL_WRITE"},
		"Recv into memory to send":  {errOf(c.Recv(ctx, readOnly.Slice(0, 8))), "lacks LOCAL_WRITE"},
		"a SEND in Prepare":         {early, "the queue pair is in INIT; try: sending after Dial or Connect has returned"},
		"a context that has ended":  {c.Write(ended, c.mr.Slice(0, 8), remote, 0), "nobody wants it"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) || errors.As(test.err, new(*InFlightError)) {
			t.Errorf("%s: %v, want %q", name, test.err, test.want)
		}
		if text := fmt.Sprint(test.err); strings.Contains(text, "\n") || !errors.Is(test.err, gone) && strings.Count(text, "; try: ") != 1 {
			t.Errorf("%s: %q is not one line with one remedy", name, text)
		}
	}
	if err := c.Write(ended, c.mr.Slice(0, 8), remote, 0); !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
		t.Errorf("the end of a context: %v", err)
	}
	if err := c.Write(ctx, c.mr.Slice(0, all), remote, 0); err != nil {
		t.Errorf("what lies within: %v", err)
	}
	if n := c.sends.Flying(); n != 0 {
		t.Errorf("%d requests in flight", n)
	}
}

func errOf[T any](_ T, err error) error { return err }

// untilFlying waits until n requests are in flight.
func (c *Conn) untilFlying(t *testing.T, n int) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("flight of %d requests", n), func() bool { return c.sends.Flying() == n },
		func() string { return fmt.Sprintf("%d are in flight", c.sends.Flying()) })
}

// TestACancelledRequestKeepsItsCompletion checks that the next request does not get the completion of
// a canceled one.
func TestACancelledRequestKeepsItsCompletion(t *testing.T) {
	c, s, remote := doPair(t, Config{}, Config{})
	gone := errors.New("too slow")
	ctx, cancel := context.WithCancelCause(t.Context())
	sent := make(chan error, 1)
	go func() {
		sent <- errOf(c.Do(ctx, &verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{c.mr.SGE(0, 8)}})) // no receive is posted
	}()
	c.untilFlying(t, 1)
	cancel(gone)
	err := testkit.Receive(t, sent, "end of Do")
	var flying *InFlightError
	if !errors.As(err, &flying) || flying.ID != 1 || !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
		t.Fatalf("%v", err)
	}
	if wc, err := flying.Wait(ctx); !errors.Is(err, gone) {
		t.Errorf("Wait of a request in flight: %+v, %v", wc, err)
	}
	got := make(chan error, 1)
	go func() {
		wc, err := c.Do(t.Context(), &verbs.SendWR{ID: 2, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{c.mr.SGE(8, 8)}, RemoteAddr: remote.Addr, RKey: remote.RKey})
		if err == nil && (wc.ID != 2 || wc.Opcode != verbs.WCRDMARead) {
			err = errors.Errorf("request 2 got %+v", wc)
		}
		got <- err
	}()
	if err := s.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{s.mr.SGE(0, slot)}}}); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, got, "end of the READ"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if wc, err := flying.Wait(t.Context()); err != nil || wc.ID != 1 || wc.Opcode != verbs.WCSend {
			t.Errorf("Wait: %+v, %v", wc, err)
		}
	}
	if wc, err := c.WaitSend(testkit.Expiring(t)); err == nil {
		t.Errorf("WaitSend got %+v", wc)
	}
}

// TestDoWaitsForRoom does more requests than the queue can hold, beside posts of the program.
func TestDoWaitsForRoom(t *testing.T) {
	for _, test := range []struct{ one bool }{{false}, {true}} {
		t.Run(fmt.Sprintf("one CQ %v", test.one), func(t *testing.T) {
			cfg := Config{Cap: verbs.QPCap{MaxSendWR: 4}, OneCQ: test.one}
			c, _, remote := doPair(t, cfg, cfg)
			const each, callers, own = 50, 12, 300
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for k := range each {
						id := uint64(i*each + k)
						wc, err := c.Do(t.Context(), &verbs.SendWR{ID: id, Opcode: verbs.OpRDMAWrite, RemoteAddr: remote.Addr, RKey: remote.RKey})
						if err != nil || wc.ID != id {
							t.Errorf("%d: %+v, %v", id, wc, err)
							return
						}
					}
				})
			}
			posted, taken := 0, 0
			wr := []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: remote.Addr, RKey: remote.RKey}}
			for taken < own {
				for ; posted < own && posted-taken < 4; posted++ {
					wr[0].ID = uint64(posted)
					if c.QP().PostSend(wr) != nil {
						break
					}
				}
				if posted == taken {
					time.Sleep(time.Millisecond)
					continue
				}
				wc, err := c.WaitSend(t.Context())
				if err != nil || wc.ID != uint64(taken) {
					t.Fatalf("the program's own %d: %+v, %v", taken, wc, err)
				}
				taken++
			}
			all.Wait()
		})
	}
}

// TestRoomIsWaitedForWithAContext has requests that do not complete in all places.
func TestRoomIsWaitedForWithAContext(t *testing.T) {
	cfg := Config{Cap: verbs.QPCap{MaxSendWR: 2}}
	c, _, _ := doPair(t, cfg, cfg)
	for i := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error, 1)
		go func() { sent <- c.Send(ctx, c.mr.Slice(0, 8)) }()
		c.untilFlying(t, i+1)
		cancel()
		if err := testkit.Receive(t, sent, "end of Send"); !errors.Is(err, context.Canceled) || !errors.As(err, new(*InFlightError)) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := c.Send(testkit.Expiring(t), c.mr.Slice(0, 8)); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*InFlightError)) {
		t.Errorf("without room: %v", err)
	}
}

// TestAFailureInTheMiddle checks that each request gets its own error.
func TestAFailureInTheMiddle(t *testing.T) {
	c, _, remote := doPair(t, Config{}, Config{})
	const n = 12
	var wcs [n]verbs.WC
	var errs [n]error
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: remote.Addr, RKey: remote.RKey}
			if i == n/2 {
				wr.RKey++
			}
			for errs[i] == nil {
				wcs[i], errs[i] = c.Do(t.Context(), &wr)
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		want := verbs.WCWRFlushErr
		if i == n/2 {
			want = verbs.WCRemAccessErr
		}
		var failed *verbs.WCError
		if !errors.As(err, &failed) || failed.ID != uint64(i) || failed.Status != want || wcs[i].Status != want || wcs[i].ID != uint64(i) {
			t.Errorf("%d: %+v, %v, want %v", i, wcs[i], err, want)
		}
	}
}

// TestDoEndsWithTheConnection closes an end while many requests are in flight.
func TestDoEndsWithTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(c, s *end)
		want func(error) bool
	}{
		"Close": {func(c, _ *end) { c.Close() }, func(err error) bool { return errors.Is(err, net.ErrClosed) }},
		"peer":  {func(_, s *end) { s.Close() }, func(err error) bool { return errors.As(err, new(*oob.ClosedError)) }},
	} {
		t.Run(name, func(t *testing.T) {
			c, s, _ := doPair(t, Config{}, Config{})
			const n = 24 // of which 16 have room
			errs := make(chan error, n)
			for range n {
				go func() { errs <- c.Send(t.Context(), c.mr.Slice(0, 8)) }() // no receive is posted
			}
			c.untilFlying(t, 16)
			test.end(c, s)
			flying := 0
			for range n {
				err := testkit.Receive(t, errs, "end of each Send")
				if !test.want(err) {
					t.Errorf("%v", err)
				}
				var f *InFlightError
				if errors.As(err, &f) {
					flying++
					defer func() {
						if wc, err := f.Wait(t.Context()); err != nil || wc.Status != verbs.WCWRFlushErr {
							t.Errorf("after Close: %+v, %v", wc, err)
						}
					}()
				}
			}
			if flying != 16 {
				t.Errorf("%d were in flight, want 16", flying)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoSendEndsInADrain checks that a SEND that waits for a receive does not take one of the
// closing peer's own.
func TestNoSendEndsInADrain(t *testing.T) {
	for range 50 {
		c, s, _ := doPair(t, Config{}, Config{})
		sent := make(chan error, 1)
		go func() { sent <- c.Send(t.Context(), verbs.MRSlice{}) }()
		c.untilFlying(t, 1)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := testkit.Receive(t, sent, "end of Send"); !errors.As(err, new(*oob.ClosedError)) {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnreadCompletionsEndTheConnection has Do take completions from the CQ that nobody reads.
func TestUnreadCompletionsEndTheConnection(t *testing.T) {
	c, _, remote := doPair(t, Config{}, Config{})
	wr := []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: remote.Addr, RKey: remote.RKey}}
	for range 10 * c.QP().SendCQ().Depth() {
		if err := c.QP().PostSend(wr); err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), c.mr.Slice(0, 8), remote, 0); err != nil {
			if !strings.Contains(err.Error(), "try: WaitSend") {
				t.Errorf("%v", err)
			}
			return
		}
	}
	t.Error("the completions pile up")
}

func TestDoOnChoosesTheQueuePair(t *testing.T) {
	cfg := Config{QPs: 3}
	c, _, remote := doPair(t, cfg, cfg)
	for i, qp := range c.QPs() {
		wc, err := c.DoOn(t.Context(), i, &verbs.SendWR{ID: 5, Opcode: verbs.OpRDMAWrite, RemoteAddr: remote.Addr, RKey: remote.RKey})
		if err != nil || wc.QPN != qp.QPN() || wc.ID != 5 {
			t.Errorf("%d: %+v, %v", i, wc, err)
		}
	}
}

func TestRecvNeedsItsOwnQueue(t *testing.T) {
	c, _, _ := doPair(t, Config{SRQ: &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}}, Config{})
	if _, err := c.Recv(t.Context(), c.mr.Slice(0, 8)); err == nil || !strings.Contains(err.Error(), "SRQ") {
		t.Errorf("%v", err)
	}
}

func TestDatagramsAreSentToThePeer(t *testing.T) {
	cfg := Config{Type: verbs.UD, QKey: 0x1234, Access: verbs.AccessLocalWrite}
	c, s, _ := doPair(t, cfg, cfg)
	if err := s.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{s.mr.SGE(0, slot)}}}); err != nil {
		t.Fatal(err)
	}
	copy(c.mr.Bytes(), "datagram")
	if err := c.Send(t.Context(), c.mr.Slice(0, 8)); err != nil {
		t.Fatal(err)
	}
	if wc, err := s.WaitRecv(t.Context()); err != nil || string(s.mr.Bytes()[40:wc.ByteLen]) != "datagram" {
		t.Errorf("%+v, %v", wc, err)
	}
}

// TestDoAllocatesNothing checks the request, its list of elements and an atomic's result.
func TestDoAllocatesNothing(t *testing.T) {
	c, _, remote := doPair(t, Config{}, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: remote.Addr, RKey: remote.RKey}
	for name, do := range map[string]func() error{
		"Do":       func() error { return errOf(c.Do(ctx, &wr)) },
		"Write":    func() error { return c.Write(ctx, c.mr.Slice(0, 8), remote, 0) },
		"FetchAdd": func() error { return errOf(c.FetchAdd(ctx, remote, 8, 1)) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		n := testkit.Allocations(t, 200, func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
