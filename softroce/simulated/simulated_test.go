package simulated_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// end is one end of a connection.
type end struct {
	cq *verbs.CQ
	mr *verbs.MR
	qp *verbs.QP
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair returns a World with two RC queue pairs in RTS.
func pair(t *testing.T, cfg simulated.Config) (*simulated.World, [2]*end) {
	t.Helper()
	w, err := simulated.New(cfg)
	check(t, err)
	t.Cleanup(func() { check(t, w.Close()) })
	var ends [2]*end
	for _, h := range simulated.Hosts {
		e := &end{}
		pd, err := w.Device(h).AllocPD()
		check(t, err)
		e.cq, err = w.Device(h).CreateCQ(verbs.CQInit{Depth: 16})
		check(t, err)
		e.mr, err = pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		check(t, err)
		e.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, SigAll: true, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
		check(t, err)
		t.Cleanup(func() {
			for _, c := range []interface{ Close() error }{e.qp, e.mr, e.cq, pd} {
				check(t, c.Close())
			}
		})
		ends[h] = e
	}
	for _, h := range simulated.Hosts {
		own, peer := ends[h], ends[h.Peer()]
		table, err := w.Device(h).QueryGIDTable()
		check(t, err)
		m := own.qp.Machine(nil)
		check(t, m.ToInit(verbs.QPAttr{PortNum: 1, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead}))
		check(t, m.ToRTR(verbs.QPAttr{PathMTU: verbs.MTU1024, DestQPN: peer.qp.QPN(), AH: table[0].To(w.GID(h.Peer())), MinRNRTimer: 1, MaxDestRdAtomic: 1}))
		check(t, m.ToRTS(verbs.QPAttr{Timeout: 10, RetryCnt: 2, RNRRetry: 2, MaxRdAtomic: 1}))
	}
	return w, ends
}

// send sends n bytes from the client to the server.
func send(t *testing.T, ends [2]*end, n int) {
	t.Helper()
	check(t, ends[1].qp.PostRecv([]verbs.RecvWR{{ID: 7, SGL: []verbs.SGE{ends[1].mr.SGE(0, 4096)}}}))
	for i := range ends[0].mr.Bytes()[:n] {
		ends[0].mr.Bytes()[i] = byte(i*3 + 1)
	}
	check(t, ends[0].qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{ends[0].mr.SGE(0, n)}}}))
}

// arrived compares the memory of both ends, and polls a success of both.
func arrived(t *testing.T, ends [2]*end, n int) {
	t.Helper()
	for _, e := range ends {
		var wcs [2]verbs.WC
		if n, err := e.cq.Poll(wcs[:]); err != nil || n != 1 || wcs[0].Status != verbs.WCSuccess {
			t.Fatalf("polled %d, %v: %v", n, err, wcs[0].Status)
		}
	}
	if !bytes.Equal(ends[0].mr.Bytes()[:n], ends[1].mr.Bytes()[:n]) {
		t.Error("the receiver's memory differs")
	}
}

func TestSend(t *testing.T) {
	w, ends := pair(t, simulated.Config{})
	send(t, ends, 3000)
	if n := len(w.InFlight()); n != 3 {
		t.Fatalf("%d packets in flight, want 3", n)
	}
	for w.Step() {
	}
	arrived(t, ends, 3000)
	if w.Now() != 20*time.Microsecond {
		t.Errorf("the answer came at %v, want 20µs", w.Now())
	}
	why := w.Packets()[1].Why
	if !why.HasWR || why.WR != 1 || why.Index != 2 || why.Count != 3 || why.Again.Kind != "" {
		t.Errorf("the second packet was sent because of %+v", why)
	}
	if last := w.Packets()[len(w.Packets())-1]; last.Why.Kind != "ack" || last.Why.Answers != 3 {
		t.Errorf("the last packet was sent because of %+v", last.Why)
	}
}

// TestFaults does to one packet what a network may do, and expects that the message arrives.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(w *simulated.World) error
		again string // why something was sent again
	}{
		"drop the first":   {func(w *simulated.World) error { return w.Drop(1) }, simulated.AfterNAK},
		"drop the last":    {func(w *simulated.World) error { return w.Drop(3) }, simulated.AfterTimeout},
		"duplicate":        {func(w *simulated.World) error { return w.Duplicate(2) }, ""},
		"reorder":          {func(w *simulated.World) error { return w.Reorder(2) }, simulated.AfterNAK},
		"a long delay":     {func(w *simulated.World) error { return w.Delay(3, time.Second) }, simulated.AfterTimeout},
		"a damaged header": {func(w *simulated.World) error { return w.Flip(2, simulated.HeaderBits+8*9) }, simulated.AfterNAK},
		"a damaged ICRC":   {func(w *simulated.World) error { return w.Flip(2, 8*len(w.Packets()[1].Frame)-1) }, simulated.AfterNAK},
		"a damaged IP":     {func(w *simulated.World) error { return w.Flip(2, 70) }, simulated.AfterNAK},
		"a damaged FECN":   {func(w *simulated.World) error { return w.Flip(2, simulated.HeaderBits+32) }, ""}, // the ICRC does not cover it
		"damaged twice": {func(w *simulated.World) error {
			if err := w.Flip(2, 400); err != nil {
				return err
			}
			return w.Flip(2, 400)
		}, ""},
		"out of turn": {func(w *simulated.World) error { return w.Deliver(3) }, simulated.AfterNAK},
	} {
		t.Run(name, func(t *testing.T) {
			w, ends := pair(t, simulated.Config{})
			send(t, ends, 3000)
			check(t, test.do(w))
			for w.Step() {
			}
			arrived(t, ends, 3000)
			again := ""
			for _, p := range w.Packets() {
				if p.CopyOf == 0 && p.Why.Again.Kind != "" {
					again = p.Why.Again.Kind
				}
			}
			if again != test.again {
				t.Errorf("sent again because of %q, want %q", again, test.again)
			}
		})
	}
}

// TestDeterministic compares two runs with one seed, and one with another.
func TestDeterministic(t *testing.T) {
	run := func(seed uint64) string {
		w, ends := pair(t, simulated.Config{Seed: seed})
		send(t, ends, 2000)
		check(t, w.Drop(2))
		if !w.RunUntil(time.Second, 1000) {
			t.Error("too many events")
		}
		text := ""
		for _, p := range w.Packets() {
			text += fmt.Sprintf("%v %x %+v\n", p.Sent, p.Frame, p.Why)
		}
		return text
	}
	if first, second := run(1), run(1); first != second {
		t.Error("two runs with one seed differ")
	}
	if run(1) == run(2) {
		t.Error("two seeds give the same packets")
	}
}

// TestRetryExceeded loses everything.
func TestRetryExceeded(t *testing.T) {
	w, ends := pair(t, simulated.Config{})
	send(t, ends, 10)
	for again := true; again; again = w.Step() {
		for _, p := range w.InFlight() {
			check(t, w.Drop(p.ID))
		}
	}
	var wcs [1]verbs.WC
	if n, err := ends[0].cq.Poll(wcs[:]); err != nil || n != 1 || wcs[0].Status != verbs.WCRetryExcErr {
		t.Errorf("polled %d, %v: %v", n, err, wcs[0].Status)
	}
	if in, ok := w.InspectQP(simulated.Client, ends[0].qp); !ok || in.Attr.State != qpstate.Error {
		t.Errorf("the queue pair is in %v, want ERR", in.Attr.State)
	}
	if sent := len(w.Packets()); sent != 3 {
		t.Errorf("sent %d packets, want 3: RETRY_CNT is 2", sent)
	}
}
