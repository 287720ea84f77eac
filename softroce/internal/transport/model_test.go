// Random work over a bad network, compared with a model: every operation must be executed once,
// in order, with the right bytes at both ends.

package transport

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
	"github.com/rawverbs/rawverbs/verbs"
)

var (
	modelOps  = flag.Int("transport.ops", 100_000, "operations of the random model test")
	modelSeed = flag.Uint64("transport.seed", 0, "seed of a single round of the random model test; 0 runs many rounds")
)

// TestRandomWork runs rounds of random work until they contain enough operations.
func TestRandomWork(t *testing.T) {
	if *modelSeed != 0 {
		n, failed := modelRound(t, *modelSeed, new([numCounters]uint64))
		t.Logf("seed %d: %d operations, retry limit reached: %v", *modelSeed, n, failed)
		return
	}
	enough := *modelOps
	if testkit.Race { // it has one goroutine, and takes ten times as long
		enough /= 10
	}
	done, rounds, gaveUp := 0, 0, 0
	var totals [numCounters]uint64
	for seed := uint64(1); done < enough; seed++ {
		n, failed := modelRound(t, seed, &totals)
		if t.Failed() {
			t.Fatalf("to run it again: go test ./softroce/internal/transport -run TestRandomWork -transport.seed=%d", seed)
		}
		done, rounds = done+n, rounds+1
		if failed {
			gaveUp++
		}
	}
	t.Logf("%d operations in %d rounds; in %d of them a retry limit was reached", done, rounds, gaveUp)
	for c, n := range totals {
		t.Logf("%v: %d", Counter(c), n)
	}
	if gaveUp > rounds/4 {
		t.Errorf("too many rounds ended at a retry limit")
	}
}

// modelDepth is the number of operations, and of receives, that a stream has posted at a time.
const modelDepth = 16

// layout divides the memory of an end of the model.
type layout struct{ max, writeOnly, words, recvs, noise, landing, size int }

func newLayout(largest int) layout {
	l := layout{max: (largest + 7) &^ 7}
	l.writeOnly = 2 * l.max // the area before it is written and read
	l.words = 4 * l.max
	l.recvs = l.words + modelWords*8
	l.noise = l.recvs + modelDepth*l.max
	l.landing = l.noise + 2*l.max
	l.size = l.landing + modelDepth*l.max
	return l
}

const modelWords = 8

// stream is the work of one requester and its expected results.
type stream struct {
	t        *testing.T
	rng      *rand.Rand
	from, to *end
	layout
	shadow   []byte // expected contents of the remote memory, up to recvs
	left     int    // operations to be posted
	posted   []modelOp
	nextID   uint64
	reads    bool // an unfenced READ was posted
	silent   int  // unsignaled operations since the last signaled one
	receives int  // receives posted …
	recved   int  // … and completed
	arrives  []modelArrival
	failed   bool
}

type modelOp struct {
	id       uint64
	opcode   verbs.WCOpcode
	signaled bool
	landing  int    // offset of want
	want     []byte // bytes in memory after the completion; nil: not checked
}

type modelArrival struct {
	opcode  verbs.WCOpcode
	length  int
	imm     uint32
	withImm bool
	data    []byte
}

func modelRound(t *testing.T, seed uint64, totals *[numCounters]uint64) (ops int, failed bool) {
	rng := rand.New(rand.NewPCG(seed, 2))
	pick := func(n ...int) int { return n[rng.IntN(len(n))] }
	largest, ops := pick(64, 1500, 1500, 9000, 9000, 40000), pick(200, 500, 1000)
	if seed%25 == 0 {
		largest, ops = 1<<20, 40
	}
	l := newLayout(largest)
	o := defaults()
	o.cap = verbs.QPCap{MaxSendWR: modelDepth, MaxRecvWR: modelDepth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
	o.memory, o.sigAll, o.srq = l.size, false, rng.IntN(4) == 0
	o.mtu = qpstate.MTU(pick(1, 2, 3, 3, 4, 5))
	o.rdAtomic = uint8(pick(1, 2, 4, 16))
	o.timeout = uint8(pick(8, 10, 12))
	o.minRNRTimer = uint8(pick(1, 10, 14))

	net := newSimnet(t, seed)
	bad := func(most float64) float64 { return float64(pick(0, 0, 1, 1, 2, 4)) / 4 * most }
	net.faults = wire.Faults{Loss: bad(0.2), Duplicate: bad(0.2), Reorder: bad(0.2), Corrupt: bad(0.1),
		Delay: time.Duration(pick(1, 10, 100)) * time.Microsecond, Late: time.Duration(pick(5, 50, 2000)) * time.Microsecond}
	cfg := Config{Window: pick(8, 32, 256)}
	with := func(reorder int) Config { cfg.Reorder, cfg.ReadChunk = reorder, pick(1, 3, 16, 16, 1<<20); return cfg }
	left, right := net.nodeWith("fd00::1", with(pick(0, 40, 4096))), net.nodeWith("fd00::2", with(pick(0, 40, 4096)))
	left.joined = pick(0, 1) == 1
	right.joined = left.joined
	left.flight, right.flight = pick(0, 1<<10, 16<<10, 64<<10, 1<<20), pick(0, 1<<10, 16<<10, 64<<10, 1<<20)
	if marked := bad(0.2); marked > 0 {
		net.tos = func(_ *simnode, tos uint8) uint8 {
			if tos&ecnMask == ecnCapable && net.chance(marked) {
				tos |= ecnCongested
			}
			return tos
		}
	}
	var streams []*stream
	for range pick(1, 1, 2, 3, 6) {
		oa, ob := o, o
		oa.psn, ob.psn = 0xffffff-rng.Uint32N(300), 0xffffff-rng.Uint32N(300)
		a, b := left.end(oa), right.end(ob)
		a.connect(b)
		b.connect(a)
		streams = append(streams, newStream(t, rng, a, b, l, ops), newStream(t, rng, b, a, l, ops/4))
	}
	calm := pick(20, 200)  // steps between disturbances
	eager := pick(1, 2, 8) // how early receives are posted
	for busy := true; busy && !t.Failed(); {
		busy = false
		for _, s := range streams {
			if s.to.qp.Query().State == qpstate.RTS && rng.IntN(eager) == 0 {
				s.postRecvs()
			}
			s.post()
			s.poll()
			s.from.qp.check(t)
			busy = busy || !s.done()
			failed = failed || s.failed
		}
		if rng.IntN(calm) == 0 {
			victim := net.nodes[rng.IntN(2)]
			victim.asleep = net.now + time.Duration(rng.Int64N(int64(8*time.Millisecond)))
		}
		if !net.step(net.now+time.Minute) && busy {
			net.now += 100 * time.Microsecond // both ends wait for receives
		}
		if net.now > time.Hour {
			t.Fatalf("seed %d: not done after an hour of simulated time", seed)
		}
	}
	net.settle()
	for c := range totals {
		totals[c] += left.engine.Counter(Counter(c)) + right.engine.Counter(Counter(c))
	}
	if failed && net.faults.Loss+net.faults.Corrupt == 0 {
		t.Errorf("seed %d: a retry limit was reached on a network that loses nothing", seed)
	}
	total := 0
	for _, s := range streams {
		s.poll()
		total += int(s.nextID)
		if !failed && !bytes.Equal(s.shadow, s.to.mem[:s.recvs]) {
			t.Errorf("seed %d: remote memory differs from the model", seed)
		}
	}
	if t.Failed() {
		t.Logf("seed %d: %d operations of up to %d bytes, %+v, %+v, %v %v, windows of %d and %d bytes", seed, ops, largest, cfg, net.faults, o.mtu,
			o.rdAtomic, left.flight, right.flight)
	}
	return total, failed
}

func newStream(t *testing.T, rng *rand.Rand, from, to *end, l layout, ops int) *stream {
	s := &stream{t: t, rng: rng, from: from, to: to, layout: l, left: ops}
	for i := l.noise; i < l.landing; i += 8 {
		binary.LittleEndian.PutUint64(from.mem[i:], rng.Uint64())
	}
	s.shadow = bytes.Clone(to.mem[:l.recvs])
	return s
}

func (s *stream) done() bool {
	return s.failed && len(s.posted) == 0 || s.left == 0 && len(s.posted) == 0 && len(s.arrives) == 0
}

// post posts some operations, if there is room.
func (s *stream) post() {
	for s.left > 0 && !s.failed && len(s.posted) < modelDepth && s.rng.IntN(3) > 0 {
		s.left--
		s.postOne()
	}
}

func (s *stream) postOne() {
	rng := s.rng
	n := rng.IntN(1 << rng.IntN(22))
	n = min(n, s.max) // makes the largest size the most likely one
	src := s.noise + rng.IntN(s.max+1)
	data := s.from.mem[src : src+n]
	slot := int(s.nextID % modelDepth)
	op := modelOp{id: s.nextID, signaled: rng.IntN(2) == 0 || s.silent == modelDepth/2 || s.left == 0, landing: s.landing + slot*s.max}
	wr := verbs.SendWR{ID: op.id, RKey: s.to.mr.RKey(), Imm: rng.Uint32()}
	s.nextID++
	fence := rng.IntN(8) == 0
	remote := rng.IntN(s.max + 1) // in one of the two areas
	third := rng.IntN(3)
	switch kind := rng.IntN(10); {
	case kind < 2: // SEND
		wr.Opcode, op.opcode = verbs.OpSend, verbs.WCSend
		arrival := modelArrival{opcode: verbs.WCRecv, length: n, data: data}
		if rng.IntN(2) == 0 {
			wr.Opcode, arrival.imm, arrival.withImm = verbs.OpSendWithImm, wr.Imm, true
		}
		s.arrives = append(s.arrives, arrival)
	case kind < 5: // WRITE
		wr.Opcode, op.opcode = verbs.OpRDMAWrite, verbs.WCRDMAWrite
		if rng.IntN(3) == 0 {
			wr.Opcode = verbs.OpRDMAWriteWithImm
			s.arrives = append(s.arrives, modelArrival{opcode: verbs.WCRecvRDMAWithImm, length: n, imm: wr.Imm, withImm: true})
		}
		if rng.IntN(2) == 0 {
			remote += s.writeOnly
		} else {
			fence = fence || s.reads // otherwise the READ may see the new bytes
		}
		copy(s.shadow[remote:], data)
	case kind < 8: // READ
		wr.Opcode, op.opcode = verbs.OpRDMARead, verbs.WCRDMARead
		op.want = bytes.Clone(s.shadow[remote : remote+n])
		src = op.landing
		clear(s.from.mem[src : src+n])
	case kind == 8 && third == 0: // ATOMIC WRITE
		remote, n = s.words+8*rng.IntN(modelWords), 8
		src = s.noise + rng.IntN(s.max-7)
		wr.Opcode, op.opcode = verbs.OpAtomicWrite, verbs.WCAtomicWrite
		copy(s.shadow[remote:], s.from.mem[src:src+8])
	case kind == 8 && third == 1: // FLUSH
		wr.Opcode, op.opcode, n = verbs.OpFlush, verbs.WCFlush, 0
		wr.Flush = verbs.Flush{Type: verbs.FlushGlobal, Level: verbs.FlushLevel(rng.IntN(2)), Length: uint32(s.max)}
	default:
		remote, n, src = s.words+8*rng.IntN(modelWords), 8, op.landing
		word := binary.NativeEndian.Uint64(s.shadow[remote:])
		op.want = bytes.Clone(s.shadow[remote : remote+8])
		wr.Opcode, op.opcode, wr.CompareAdd = verbs.OpAtomicFetchAndAdd, verbs.WCFetchAdd, rng.Uint64()
		result := word + wr.CompareAdd
		if rng.IntN(2) == 0 {
			wr.Opcode, op.opcode, wr.Swap = verbs.OpAtomicCmpAndSwp, verbs.WCCompSwap, rng.Uint64()
			if result = word; rng.IntN(3) > 0 {
				wr.CompareAdd, result = word, wr.Swap
			}
		}
		binary.NativeEndian.PutUint64(s.shadow[remote:], result)
	}
	wr.RemoteAddr = s.to.mr.Addr() + uint64(remote)
	wr.SGL = s.from.split(rng, src, n)
	if wr.Opcode == verbs.OpAtomicWrite {
		wr.SGL = []verbs.SGE{s.from.sge(src, n)}
	}
	if fence {
		wr.Flags |= verbs.SendFence
		s.reads = false
	}
	if op.opcode == verbs.WCRDMARead {
		s.reads = true
	}
	if op.signaled {
		wr.Flags |= verbs.SendSignaled
		s.silent = 0
	} else {
		s.silent++
	}
	if op.want == nil && n <= 64 && rng.IntN(2) == 0 {
		wr.Flags |= verbs.SendInline
	}
	s.posted = append(s.posted, op)
	if _, err := s.from.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		s.t.Errorf("post %v of %d bytes: %v", wr.Opcode, n, err)
	}
}

// split returns n bytes of memory as a random list of pieces.
func (e *end) split(rng *rand.Rand, off, n int) []verbs.SGE {
	var sgl []verbs.SGE
	for len(sgl) < 3 && rng.IntN(2) == 0 {
		k := rng.IntN(n + 1)
		sgl = append(sgl, e.sge(off, k))
		off, n = off+k, n-k
	}
	return append(sgl, e.sge(off, n))
}

func (s *stream) postRecvs() {
	for s.receives-s.recved < modelDepth && s.rng.IntN(2) == 0 {
		off := s.recvs + s.receives%modelDepth*s.max
		s.to.recv(verbs.RecvWR{ID: uint64(s.receives), SGL: s.to.split(s.rng, off, s.max)})
		s.receives++
	}
}

// poll compares the completions with the expected ones.
func (s *stream) poll() {
	var wcs [4]verbs.WC
	for n := s.from.scq.Poll(wcs[:]); n > 0; n = s.from.scq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			s.complete(wc)
		}
	}
	for n := s.to.rcq.Poll(wcs[:]); n > 0; n = s.to.rcq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			s.arrive(wc)
		}
	}
}

func (s *stream) complete(wc verbs.WC) {
	for len(s.posted) > 0 {
		op := s.posted[0]
		s.posted = s.posted[1:]
		if wc.Status == verbs.WCSuccess {
			if got := s.from.mem[op.landing:]; op.want != nil && !bytes.Equal(got[:len(op.want)], op.want) {
				s.t.Errorf("operation %d, %v: the memory does not have the expected bytes", op.id, op.opcode)
			}
		}
		if op.id != wc.ID {
			if op.signaled || s.failed {
				s.t.Errorf("completion %d %v, but %d was next", wc.ID, wc.Status, op.id)
			}
			continue
		}
		switch {
		case wc.Status == verbs.WCRetryExcErr && !s.failed:
			s.failed = true
		case wc.Status == verbs.WCWRFlushErr && s.failed:
		case wc.Status != verbs.WCSuccess || s.failed || !op.signaled || wc.Opcode != op.opcode:
			s.t.Errorf("operation %d, %v signaled %v: completed with %v %v", op.id, op.opcode, op.signaled, wc.Status, wc.Opcode)
		}
		return
	}
	s.t.Errorf("completion %d %v, but nothing is posted", wc.ID, wc.Status)
}

func (s *stream) arrive(wc verbs.WC) {
	if wc.ID != uint64(s.recved) {
		s.t.Errorf("receive %d completed, but %d was next", wc.ID, s.recved)
	}
	s.recved++
	if wc.Status == verbs.WCWRFlushErr {
		return
	}
	if len(s.arrives) == 0 || wc.Status != verbs.WCSuccess {
		s.t.Errorf("receive %d completed with %v, %d messages in flight", wc.ID, wc.Status, len(s.arrives))
		return
	}
	want := s.arrives[0]
	s.arrives = s.arrives[1:]
	got := s.to.mem[s.recvs+int(wc.ID)%modelDepth*s.max:]
	if wc.Opcode != want.opcode || int(wc.ByteLen) != want.length || wc.Flags&verbs.WCWithImm != 0 != want.withImm || wc.Imm() != want.imm ||
		!bytes.Equal(got[:len(want.data)], want.data) {
		s.t.Errorf("receive %d differs from the message sent", wc.ID)
	}
}
