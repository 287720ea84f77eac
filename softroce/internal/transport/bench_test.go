package transport

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// wireless passes packets from engine to engine directly, without a network.
type wireless struct {
	now     time.Duration
	engines [2]*Engine
	out     *Outbox
	batch   []Datagram
}

func newWireless() (*wireless, [2]*simnode) {
	w := &wireless{out: NewOutbox(make([]byte, 128<<10), 32, 64), batch: make([]Datagram, 0, 32*64)}
	var nodes [2]*simnode
	for i, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		n := &simnode{net: &simnet{}, addr: netip.MustParseAddr(addr)}
		n.engine = New(Config{Rand: rand.NewPCG(1, uint64(i)), MTU: qpstate.MTU4096, Resolve: func(a *qpstate.AHAttr) (*Path, error) {
			return &Path{Src: n.addr, Dst: a.GRH.DGID.Addr()}, nil
		}})
		nodes[i], w.engines[i] = n, n.engine
	}
	return w, nodes
}

// pump passes packets until no engine has any.
func (w *wireless) pump() {
	for busy := true; busy; {
		busy = false
		for i, e := range w.engines {
			for bursts := e.Transmit(w.now, w.out); len(bursts) > 0; bursts = e.Transmit(w.now, w.out) {
				busy = true
				w.batch = w.batch[:0]
				for _, b := range bursts {
					for packet := range slices.Chunk(b.Data, b.Segment) {
						w.batch = append(w.batch, Datagram{Data: packet, Src: b.Path.Src, Dst: b.Path.Dst})
					}
				}
				w.engines[1-i].Receive(w.now, w.batch)
			}
		}
		w.now += 10 * time.Microsecond
	}
}

// rig is connected pairs of queue pairs over a wireless.
type rig struct {
	tb   testing.TB
	w    *wireless
	a, b []*end
	wcs  [64]verbs.WC
}

func newRig(tb testing.TB, pairs, memory int) *rig {
	tb.Helper()
	w, nodes := newWireless()
	nodes[0].net.tb, nodes[1].net.tb = tb, tb
	r := &rig{tb: tb, w: w}
	o := defaults()
	o.mtu, o.memory = qpstate.MTU4096, memory
	o.cap.MaxSendWR, o.cap.MaxRecvWR = 16, 16
	o.rdAtomic = 16
	for range pairs {
		a, b := nodes[0].end(o), nodes[1].end(o)
		a.connect(b)
		b.connect(a)
		r.a, r.b = append(r.a, a), append(r.b, b)
	}
	return r
}

// drain polls a CQ until it is empty, and fails on errors.
func (r *rig) drain(cq *CQ) (n int) {
	for k := cq.Poll(r.wcs[:]); k > 0; k = cq.Poll(r.wcs[:]) {
		for i := range r.wcs[:k] {
			if r.wcs[i].Status != verbs.WCSuccess {
				r.tb.Fatal(r.wcs[i].Status)
			}
		}
		n += k
	}
	return n
}

// sendOnce posts one SEND on every pair and checks that it arrives.
func (r *rig) sendOnce(recvs []verbs.RecvWR, sends []verbs.SendWR) {
	for i, a := range r.a {
		b := r.b[i]
		sends[0].SGL[0] = a.sge(0, 8)
		recvs[0].SGL[0] = b.sge(0, 8)
		if _, err := b.qp.PostRecv(recvs); err != nil {
			r.tb.Fatal(err)
		}
		if _, err := a.qp.PostSend(sends); err != nil {
			r.tb.Fatal(err)
		}
	}
	r.w.pump()
	for i, a := range r.a {
		if n := r.drain(a.scq) + r.drain(r.b[i].rcq); n != 2 {
			r.tb.Fatalf("%d completions, want two per pair", n)
		}
	}
}

// moveOnce executes one READ or WRITE of n bytes.
func (r *rig) moveOnce(wrs []verbs.SendWR, n int) {
	a, b := r.a[0], r.b[0]
	wrs[0].SGL[0] = a.sge(0, n)
	wrs[0].RemoteAddr, wrs[0].RKey = b.mr.Addr(), b.mr.RKey()
	if _, err := a.qp.PostSend(wrs); err != nil {
		r.tb.Fatal(err)
	}
	r.w.pump()
	if r.drain(a.scq) != 1 {
		r.tb.Fatal("the request is not complete")
	}
}

func BenchmarkSend8(b *testing.B) {
	for _, pairs := range []int{1, 1000} {
		b.Run(fmt.Sprintf("%d QPs", pairs), func(b *testing.B) {
			r := newRig(b, pairs, 64)
			recvs := []verbs.RecvWR{{SGL: make([]verbs.SGE, 1)}}
			sends := []verbs.SendWR{{Opcode: verbs.OpSend, SGL: make([]verbs.SGE, 1)}}
			b.ReportAllocs()
			for i := 0; i < b.N; i += pairs {
				r.sendOnce(recvs, sends)
			}
		})
	}
}

func BenchmarkMove1MiB(b *testing.B) {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		b.Run(op.String(), func(b *testing.B) {
			r := newRig(b, 1, 1<<20)
			wrs := []verbs.SendWR{{Opcode: op, SGL: make([]verbs.SGE, 1)}}
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				r.moveOnce(wrs, 1<<20)
			}
		})
	}
}

// TestNoAllocations checks that messages allocate nothing in steady state.
func TestNoAllocations(t *testing.T) {
	r := newRig(t, 10, 1<<17)
	recvs := []verbs.RecvWR{{SGL: make([]verbs.SGE, 1)}}
	sends := []verbs.SendWR{{Opcode: verbs.OpSend, SGL: make([]verbs.SGE, 1)}}
	if n := testing.AllocsPerRun(100, func() { r.sendOnce(recvs, sends) }); n != 0 {
		t.Errorf("10 SENDs make %v allocations", n)
	}
	ex := make([]verbs.WCEx, 4)
	if n := testing.AllocsPerRun(100, func() {
		r.a[0].scq.push(&verbs.WC{}, false)
		r.a[0].scq.PollEx(ex)
	}); n != 0 {
		t.Errorf("PollEx makes %v allocations", n)
	}
	srq, err := r.b[0].pd.CreateSRQ(4, 1)
	if err != nil {
		t.Fatal(err)
	}
	taken := recvWQE{sgl: make([]verbs.SGE, 0, 1)}
	if n := testing.AllocsPerRun(100, func() {
		_, _ = srq.PostRecv(recvs)
		srq.pop(&taken)
	}); n != 0 {
		t.Errorf("a receive of an SRQ makes %v allocations", n)
	}
	for op, size := range map[verbs.Opcode]int{verbs.OpRDMAWrite: 100_000, verbs.OpRDMARead: 100_000, verbs.OpAtomicFetchAndAdd: atomicLen} {
		wrs := []verbs.SendWR{{Opcode: op, SGL: make([]verbs.SGE, 1)}}
		if n := testing.AllocsPerRun(100, func() { r.moveOnce(wrs, size) }); n != 0 {
			t.Errorf("%v makes %v allocations", op, n)
		}
	}
}
