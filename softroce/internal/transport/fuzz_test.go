package transport

import (
	"bytes"
	"math/bits"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// check checks the invariants of a queue pair between two calls.
func (qp *QP) check(tb testing.TB) {
	tb.Helper()
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r, a := &qp.req, &qp.resp.answers
	due := 0
	for i := range a.slots {
		if a.slots[i].due {
			due++
		}
	}
	answered := 0
	for i := r.head; i != r.tail; i++ {
		if w := r.wqe(i); w.started && w.answered() {
			answered++
		}
	}
	switch {
	case r.head > r.cur || r.cur > r.tail || r.tail-r.head > uint64(len(r.wqes)):
		tb.Errorf("send queue: head %d, cur %d, tail %d", r.head, r.cur, r.tail)
	case r.una > r.nxt || r.nxt > r.max:
		tb.Errorf("packets: una %d, nxt %d, max %d", r.una, r.nxt, r.max)
	case r.answersDue < 0 || r.answersDue > int(qp.attr.MaxRdAtomic):
		tb.Errorf("%d READs and atomics unanswered, want at most %d", r.answersDue, qp.attr.MaxRdAtomic)
	case r.answeredStarted != answered:
		tb.Errorf("%d READs and atomics started, but the counter is %d", answered, r.answeredStarted)
	case due != a.due:
		tb.Errorf("%d answers due, but the counter is %d", due, a.due)
	case r.arrivals != r.countArrived():
		tb.Errorf("%d READ responses came early, but the counter is %d", r.countArrived(), r.arrivals)
	case !qp.resp.inOrder():
		tb.Errorf("packet %d is expected, and the buffered ones are %v", qp.resp.expected, qp.resp.reorder.packets)
	case r.una < r.max && r.deadline == never && qp.kind == verbs.RC && qp.canSend() && r.nxt > r.una && qp.attr.Timeout != 0:
		tb.Error("packets in flight and no deadline")
	case qp.paced.to != nil && qp.kind != verbs.RC && !qp.canSend():
		tb.Errorf("the queue pair may wait for a rate in %v; its quantum is %d", qp.attr.State, qp.paced.quantum.Load())
	}
}

func (v *reads) countArrived() (n int) {
	for _, word := range v.arrived {
		n += bits.OnesCount64(word)
	}
	return n
}

// inOrder reports whether the buffered packets are in order, and behind a gap.
func (rs *responder) inOrder() bool {
	last := rs.expected
	for _, a := range rs.reorder.packets {
		if a.seq <= last {
			return false
		}
		last = a.seq
	}
	return len(rs.reorder.packets) > 0 || rs.reorder.packets == nil
}

// fuzzBytes returns a fuzzer's input piece by piece, and zeros at the end.
type fuzzBytes struct{ data []byte }

func (f *fuzzBytes) byte() byte {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return b
}

func (f *fuzzBytes) uint16() int { return int(f.byte())<<8 | int(f.byte()) }

// number returns a small number or one near a limit.
func (f *fuzzBytes) number(near uint64) uint64 {
	switch b := f.byte(); b % 4 {
	case 0:
		return uint64(b / 4)
	case 1:
		return near + uint64(int8(f.byte()))
	case 2:
		return uint64(f.uint16())
	default:
		return ^uint64(f.byte())
	}
}

// packet builds a packet from the input: usually a valid one, with fields that a peer might
// choose badly. to is the receiving end, and psn is the PSN that it expects.
func (f *fuzzBytes) packet(to *end, psn uint32) []byte {
	op := packet.Opcode(f.byte())
	if f.byte()%8 != 0 {
		base := map[verbs.QPType]packet.Opcode{verbs.RC: 0, verbs.UC: 0x20, verbs.UD: 0x64}[to.opts.kind]
		op = base + op%0x20
	}
	payload := 0
	switch f.byte() % 4 {
	case 0:
		payload = 1024
	case 1:
		payload = int(f.byte())
	case 2:
		payload = f.uint16() % 4200
	}
	if op == packet.RCAtomicWrite {
		payload = packet.WordLen
	}
	p, err := packet.Build(make([]byte, packet.MaxPacket+200), op, payload)
	if err != nil {
		if p, err = packet.Build(make([]byte, packet.MaxPacket), op, 0); err != nil {
			return f.data[:min(len(f.data), 100)]
		}
	}
	for i := range p.Payload() {
		p.Payload()[i] = 0xee
	}
	p.BTH().SetDestQPN(to.qp.QPN())
	p.BTH().SetPSN(packet.NewPSN(psn + uint32(int8(f.byte())>>f.byte()%8)))
	p.BTH().SetAckReq(f.byte()%2 == 0)
	key := to.mr.RKey()
	if f.byte()%8 == 0 {
		key ^= 1
	}
	va := to.mr.Addr() + f.number(uint64(to.opts.memory))
	if h := p.RETH(); h != nil {
		h.Set(va, key, uint32(f.number(uint64(to.opts.memory))))
	}
	if h := p.FETH(); h != nil {
		b := f.byte()
		h.Set(verbs.FlushType(b), verbs.FlushLevel(b>>4))
	}
	if h := p.AtomicETH(); h != nil {
		h.Set(va, key, f.number(0), f.number(0))
	}
	if h := p.AETH(); h != nil {
		h.Set(packet.Syndrome(f.byte()), uint32(f.byte()))
	}
	if h := p.IETH(); h != nil {
		h.Set(key)
	}
	if h := p.DETH(); h != nil {
		h.Set(0x1234, uint32(f.byte()))
	}
	return p.Bytes()
}

// fuzzEnd returns an end whose region lies in the middle of a slice. intact checks that the
// rest of the slice has not changed.
func fuzzEnd(t *testing.T, n *simnet, addr string, kind verbs.QPType) (e *end, intact func()) {
	o := defaults()
	o.kind, o.memory, o.rdAtomic = kind, 8192, 2
	e = n.nodeWith(addr, Config{Reorder: 8}).end(o)
	outer := alignedBytes(3 * o.memory)
	fill(outer, 9)
	before := bytes.Clone(outer)
	e.mr.Close()
	e.mem = outer[o.memory : 2*o.memory]
	mr, err := e.pd.RegisterMR(e.mem, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	e.mr = mr
	return e, func() {
		if !bytes.Equal(outer[:o.memory], before[:o.memory]) || !bytes.Equal(outer[2*o.memory:], before[2*o.memory:]) {
			t.Error("memory outside the region has changed")
		}
	}
}

// deliver passes raw bytes to an end as if its peer had sent them. It drops the end's answers.
func (e *end) deliver(peer *end, data []byte, answer bool) {
	net := e.node.net
	e.node.engine.Receive(net.now, []Datagram{{Data: data, Src: peer.node.addr, Dst: e.node.addr}})
	for answer {
		bursts := e.node.engine.Transmit(net.now, e.node.out)
		for _, b := range bursts {
			for i := 0; i < len(b.Data); i += b.Segment {
				if _, err := packet.Parse(b.Data[i:min(i+b.Segment, len(b.Data))]); err != nil {
					net.tb.Error(err)
				}
			}
		}
		answer = len(bursts) > 0
	}
	e.qp.check(net.tb)
}

// FuzzResponder sends packets to a queue pair with receives and a region.
func FuzzResponder(f *testing.F) {
	f.Add([]byte{0})
	f.Add(bytes.Repeat([]byte{0, 4, 1, 1, 0, 0, 0, 1}, 20))
	f.Add(bytes.Repeat([]byte{1, 6, 1, 0, 0, 0, 0, 1, 2, 3, 1}, 20))
	f.Add(bytes.Repeat([]byte{2, 0x0c, 1, 3, 0, 0, 0, 1, 4, 1, 200}, 20))
	f.Add(bytes.Repeat([]byte{2, 0x1c, 1, 3, 0, 0, 0, 1, 4, 1, 200, 1}, 20))
	f.Add(bytes.Repeat([]byte{2, 0x1d, 1, 3, 0, 0, 0, 1, 0, 32, 32}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &fuzzBytes{data}
		kind := []verbs.QPType{verbs.RC, verbs.RC, verbs.RC, verbs.UC, verbs.UD}[in.byte()%5]
		n := newSimnet(t, 1)
		a, _ := fuzzEnd(t, n, "fd00::1", kind)
		b, intact := fuzzEnd(t, n, "fd00::2", kind)
		a.connect(b)
		b.connect(a)
		for i := range 8 {
			b.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{b.sge(i*1024, 1024), b.sge(0, 1024*(i%2))}})
		}
		for len(in.data) > 0 {
			b.qp.mu.Lock()
			expected := uint32(b.qp.resp.expected)
			b.qp.mu.Unlock()
			b.deliver(a, in.packet(b, expected), in.byte()%2 == 0)
		}
		intact()
		var wcs [20]verbs.WC
		if got := b.rcq.Poll(wcs[:]); got > 8 {
			t.Errorf("%d completions for 8 receives", got)
		} else {
			for i, wc := range wcs[:got] {
				if wc.ID != uint64(i) {
					t.Errorf("receive %d completed as number %d", wc.ID, i)
				}
			}
		}
	})
}

// FuzzRequesterResponse sends answers to a queue pair with requests in flight.
func FuzzRequesterResponse(f *testing.F) {
	f.Add([]byte{0})
	f.Add(bytes.Repeat([]byte{0x11, 1, 3, 0, 0, 0, 0, 0, 0, 31}, 20))
	f.Add(bytes.Repeat([]byte{0x0e, 1, 0, 0, 0, 0, 0, 0, 0, 31}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &fuzzBytes{data}
		n := newSimnet(t, 1)
		a, intact := fuzzEnd(t, n, "fd00::1", verbs.RC)
		b, _ := fuzzEnd(t, n, "fd00::2", verbs.RC)
		a.connect(b)
		b.connect(a)
		n.tap = func(from, _ *simnode, _ []byte) bool { return false }
		const posted = 10
		for i := range posted {
			op := []verbs.Opcode{verbs.OpSend, verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpAtomicFetchAndAdd, verbs.OpAtomicWrite, verbs.OpFlush}[in.byte()%6]
			wr := verbs.SendWR{ID: uint64(i), Opcode: op, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
			size := []int{8, 0, 3000, 5000}[in.byte()%4]
			wr.Flush.Type = verbs.FlushGlobal
			if op == verbs.OpAtomicFetchAndAdd || op == verbs.OpAtomicWrite {
				size = 8
			}
			wr.SGL = []verbs.SGE{a.sge(0, size)}
			a.send(wr)
		}
		n.transmit()
		for len(in.data) > 0 && a.qp.Query().State == qpstate.RTS {
			a.qp.mu.Lock()
			una := uint32(a.qp.req.una)
			a.qp.mu.Unlock()
			a.deliver(b, in.packet(a, una), true)
			if in.byte()%8 == 0 {
				n.now += time.Duration(in.byte()) * 100 * time.Microsecond
				a.node.engine.Advance(n.now)
			}
		}
		a.modify(qpstate.Attr{State: qpstate.Error}, 0)
		a.qp.check(t)
		intact()
		wcs := make([]verbs.WC, posted+1)
		got := a.scq.Poll(wcs)
		if got != posted {
			t.Errorf("%d completions for %d requests", got, posted)
		}
		good := true
		for i, wc := range wcs[:got] {
			if wc.ID != uint64(i) || !good && wc.Status == verbs.WCSuccess {
				t.Errorf("completion %d is %d %v", i, wc.ID, wc.Status)
			}
			good = good && wc.Status == verbs.WCSuccess
		}
	})
}
