// FuzzEngine: two engines, an adversary between them, and programs that do anything in any order.
//
// Each step takes a byte of the input and does one thing: it posts work, delivers, drops, repeats or
// forges packets, lets time pass, changes states, closes and opens memory. After each step the
// invariants hold: those of a queue pair (QP.check), of an engine (arena.check) and of completions
// (player.completed). At the end everything is closed, and nothing is left in the engines.

package transport

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	arenaMemory  = 4096
	arenaReorder = 8
	arenaWindow  = 16
	arenaReads   = 3
	arenaSteps   = 3000
	arenaDepth   = 64 // work requests of a queue
	arenaRoom    = 16 << 10
)

// arena is two nodes and the packets between them.
type arena struct {
	t       *testing.T
	in      *fuzzBytes
	net     *simnet
	players []*player
	wire    []arenaPacket // sent and not delivered, the oldest first
	past    []arenaPacket // the last ones delivered
	bursts  int           // packets sent since the last delivery
}

type arenaPacket struct {
	from, to *simnode
	data     []byte
}

// player is an end with a program that follows no rules, and what the engine owes to that program.
type player struct {
	*end
	arena  *arena
	peer   *player
	rooms  []*room // memory; the first is the one that work requests use
	window *testMW
	handle *verbs.AH // UD

	sends    []owed
	recvs    []uint64
	nextID   uint64
	broken   bool // an error has completed: the rest is flushed
	overruns bool // the CQs are small: completions may be missing
	armed    int  // calls of Notify that may come
}

// owed is a posted send and whether it completes without an error.
type owed struct {
	id       uint64
	signaled bool
}

// room is a region, or memory beside the regions.
type room struct {
	mem    []byte
	mr     *MR
	pd     *PD
	access verbs.Access
	before []byte // what the memory holds; nil: somebody may write
}

// secret is in all memory that nobody may read, so it never appears in a packet.
var secret = []byte("\xa5\x5asecret\x5a\xa5")

func FuzzEngine(f *testing.F) {
	f.Add([]byte{0})
	var all []byte
	for i := range 64 {
		all = append(all, byte(i*13), byte(i), byte(i/3))
	}
	f.Add(all)
	for kind := range byte(5) { // talk: posts, transmits and deliveries in turn
		talk := bytes.Repeat([]byte{0, 0, 0, 7, 1, 0, 0, 1, 0, 2, 2, 2, 0, 1, 1, 3, 1, 2, 2}, 6)
		f.Add(append([]byte{kind, 0}, talk...))
		f.Add(append([]byte{kind, 2 | 64}, talk...)) // switches mark the packets
	}
	for _, step := range []byte{4, 5, 6, 7, 8, 9, 10, 11, 12, 13} {
		f.Add(append([]byte{1, 3}, bytes.Repeat([]byte{0, step, 3, 2, 1, step, 9, 2, 0, 2, step, 40, 7}, 6)...))
	}
	f.Fuzz(playArena)
}

func playArena(t *testing.T, data []byte) {
	a := newArena(t, &fuzzBytes{data})
	for steps := 0; len(a.in.data) > 0 && steps < arenaSteps && !t.Failed(); steps++ {
		a.step()
		a.check()
		if steps%16 == 0 {
			a.guard()
		}
	}
	a.end()
}

func newArena(t *testing.T, in *fuzzBytes) *arena {
	a := &arena{t: t, in: in, net: newSimnet(t, 1)}
	a.net.room = arenaRoom
	cfg := Config{Reorder: arenaReorder, ReadChunk: 2, Window: arenaWindow}
	kinds := []verbs.QPType{verbs.RC, verbs.RC, verbs.RC, verbs.UC, verbs.UD}
	kind, how := kinds[int(in.byte())%len(kinds)], in.byte()
	if how&1 != 0 {
		cfg.Reorder = 0
	}
	x, y := a.net.nodeWith("fd00::1", cfg), a.net.nodeWith("fd00::2", cfg)
	if how&2 != 0 {
		x.flight, y.flight = 8<<10, 8<<10
	}
	x.joined, y.joined = how&32 != 0, how&32 != 0
	if how&64 != 0 {
		a.net.tos = func(_ *simnode, tos uint8) uint8 {
			if tos&ecnMask != 0 {
				tos |= ecnCongested
			}
			return tos
		}
	}
	for i, k := range []verbs.QPType{verbs.RC, kind} {
		o := defaults()
		o.kind, o.memory, o.rdAtomic, o.mtu, o.retry, o.rnrRetry = k, arenaMemory, arenaReads, qpstate.MTU256, 3, 3
		o.srq, o.sigAll = how&4 != 0, how&8 != 0 && i == 0
		o.access |= verbs.AccessMWBind
		if how&16 != 0 && i == 1 {
			o.cqDepth = 8
		}
		p, q := a.player(x, o), a.player(y, o)
		p.peer, q.peer = q, p
		p.reconnect()
		q.reconnect()
	}
	return a
}

// player makes an end with rooms of all rights, within memory that nobody may touch.
func (a *arena) player(node *simnode, o options) *player {
	p := &player{end: node.end(o), arena: a, overruns: o.cqDepth < 2*arenaDepth}
	p.scq.SetNotify(func() { p.armed-- })
	p.mr.Close()
	outer := alignedBytes(8 * arenaMemory)
	for i := 0; i+len(secret) <= len(outer); i += len(secret) {
		copy(outer[i:], secret)
	}
	part := func(i int) []byte { return outer[i*arenaMemory : (i+1)*arenaMemory] }
	const readable = verbs.AccessLocalWrite | verbs.AccessRemoteRead
	p.rooms = []*room{
		{mem: part(1), pd: p.pd, access: allAccess | verbs.AccessMWBind},
		{mem: part(3), pd: p.pd, access: readable, before: bytes.Clone(part(3))},
		{mem: part(5), pd: p.pd, access: verbs.AccessLocalWrite, before: bytes.Clone(part(5))},
		{mem: part(6), pd: node.domain(), access: allAccess, before: bytes.Clone(part(6))},
	}
	clear(part(1)) // those that the peer may read hold no secret
	clear(part(3))
	p.rooms[1].before = bytes.Clone(part(3))
	for i := range 8 {
		if i%2 == 0 && i != 6 || i == 7 {
			p.rooms = append(p.rooms, &room{mem: part(i), before: bytes.Clone(part(i))})
		}
	}
	for _, r := range p.rooms {
		r.open(a.t)
	}
	p.mem, p.mr = p.rooms[0].mem, p.rooms[0].mr
	p.window = newTestMW(a.t, p.end, []verbs.MWType{verbs.MWType1, verbs.MWType2}[len(a.players)%2], bindable)
	a.players = append(a.players, p)
	return p
}

func (r *room) open(t *testing.T) {
	if r.pd == nil {
		return
	}
	mr, err := r.pd.RegisterMR(r.mem, r.access)
	if err != nil {
		t.Fatal(err)
	}
	r.mr = mr
}

// reconnect moves a queue pair from any state to RTS.
func (p *player) reconnect() {
	p.modify(qpstate.Attr{State: qpstate.Reset}, 0)
	p.forget()
	p.connect(p.peer.end)
}

// forget drops what was posted, as the move to RESET does. The receives of an SRQ stay.
func (p *player) forget() {
	p.poll()
	p.sends, p.recvs, p.broken = nil, nil, false
	if p.srq != nil {
		for _, r := range p.srq.Inspect() {
			p.recvs = append(p.recvs, r.ID)
		}
	}
}

// step does one thing.
func (a *arena) step() {
	in := a.in
	p := a.players[int(in.byte())%len(a.players)]
	switch op := in.byte() % 18; op {
	case 0:
		p.postSend()
	case 1:
		p.postRecv()
	case 2:
		a.transmit(p.node)
	case 3, 14:
		a.deliver(0, 1+int(in.byte()%4), false)
	case 4: // reorder
		a.deliver(int(in.byte()), 1, false)
	case 5: // duplicate
		a.deliver(int(in.byte()), 1, true)
	case 6: // lose
		a.lose(int(in.byte()), 1)
	case 7:
		p.forged()
	case 8, 15: // to the next deadline
		if at, ok := p.node.engine.Deadline(); ok {
			a.net.now = max(a.net.now, at)
		}
		p.node.engine.Advance(a.net.now)
	case 9:
		a.net.now += time.Duration(in.byte()) * 20 * time.Microsecond
		p.node.engine.Advance(a.net.now)
	case 10:
		p.changeState()
	case 11:
		p.changeMemory()
	case 12: // an old packet once more
		a.repeat(int(in.byte()))
	case 13:
		if in.byte()%8 == 0 {
			p.reconnect()
		} else {
			p.bind()
		}
	case 16:
		p.arm()
	case 17:
		p.reregister()
	}
}

// transmit takes what a node has to send. Nobody may send without end.
func (a *arena) transmit(s *simnode) {
	for {
		bursts := s.engine.Transmit(a.net.now, s.out)
		if len(bursts) == 0 {
			return
		}
		for _, b := range bursts {
			to := a.net.nodes[0]
			if to == s {
				to = a.net.nodes[1]
			}
			for raw := range slices.Chunk(b.Data, b.Segment) {
				a.sent(arenaPacket{s, to, bytes.Clone(raw)})
			}
		}
	}
}

func (a *arena) sent(p arenaPacket) {
	if _, err := packet.Parse(p.data); err != nil {
		a.t.Errorf("the engine sent % x: %v", p.data, err)
	}
	if bytes.Contains(p.data, secret) {
		a.t.Errorf("a packet has bytes of memory that nobody may read: % x", p.data)
	}
	// Per queue pair: the window, and for each READ of the peer its whole region.
	const most = 4 * (arenaWindow + (arenaReads+1)*(arenaMemory/256+1) + arenaReorder)
	if a.bursts++; a.bursts > most {
		a.t.Errorf("%d packets were sent for one that was received", a.bursts)
	}
	if a.wire = append(a.wire, p); len(a.wire) > 256 {
		a.wire = a.wire[1:]
	}
}

// deliver delivers a run of packets in one batch.
func (a *arena) deliver(at, n int, keep bool) {
	if len(a.wire) == 0 {
		return
	}
	at %= len(a.wire)
	run := slices.Clone(a.wire[at:min(at+n, len(a.wire))])
	if !keep {
		a.wire = slices.Delete(a.wire, at, at+len(run))
	}
	a.receive(run...)
	a.past = append(a.past, run...)
	a.past = a.past[max(0, len(a.past)-64):]
}

// lose drops a run of packets.
func (a *arena) lose(at, n int) {
	if len(a.wire) > 0 {
		at %= len(a.wire)
		a.wire = slices.Delete(a.wire, at, min(at+n, len(a.wire)))
	}
}

// repeat delivers an old packet once more.
func (a *arena) repeat(at int) {
	if len(a.past) > 0 {
		a.receive(a.past[at%len(a.past)])
	}
}

// receive passes packets to the node of the first one's destination.
func (a *arena) receive(run ...arenaPacket) {
	var batch []Datagram
	for _, p := range run {
		if p.to == run[0].to {
			tos := a.in.byte() & 3 // some are marked by a switch
			batch = append(batch, Datagram{Data: bytes.Clone(p.data), Src: p.from.addr, Dst: p.to.addr, TOS: tos})
		}
	}
	a.bursts = 0
	run[0].to.engine.Receive(a.net.now, batch)
}

// forged sends the player a packet that nobody has sent, with numbers close to the right ones.
func (p *player) forged() {
	in := p.arena.in
	p.qp.mu.Lock()
	near := []int64{p.qp.resp.expected, p.qp.req.una, p.qp.req.nxt, p.qp.req.max}[in.byte()%4]
	p.qp.mu.Unlock()
	aim := *p.end
	if r := p.rooms[int(in.byte())%4]; r.mr != nil {
		aim.mr = r.mr
	}
	data := in.packet(&aim, uint32(near))
	how := in.byte()
	if how&7 == 7 {
		data = data[:int(in.byte())%(len(data)+1)]
	}
	if how&0x38 == 0x38 && len(data) > 0 {
		data[int(in.byte())%min(len(data), 64)] ^= in.byte()
	}
	from := p.peer.node
	if how&0xc0 == 0xc0 {
		from = p.node
	}
	p.arena.receive(arenaPacket{from, p.node, data})
}

// check checks what holds between two steps.
func (a *arena) check() {
	for _, p := range a.players {
		p.poll()
		p.qp.check(a.t)
		if p.armed < 0 {
			a.t.Error("a CQ called Notify more often than it was armed")
		}
		if s := p.qp.Query().State; (s == qpstate.Error || s == qpstate.SQE) && !p.overruns {
			if sends, recvs := p.due(s); sends+recvs > 0 {
				a.t.Errorf("%d sends and %d receives are not flushed in %v", sends, recvs, s)
			}
		}
	}
	for i, s := range a.net.nodes {
		s.events = s.events[:0]
		buffered, charged, reads := 0, int64(0), int64(0)
		for _, p := range a.players[i%2:] {
			if p.node == s {
				buffered += len(p.qp.resp.reorder.packets)
				charged += p.qp.flight.charged + p.qp.flight.quantum.Load()
				reads += p.qp.reads.charged + p.qp.reads.quantum.Load()
				if got, want := p.qp.req.readsInFlight(), p.qp.countReads(); got != want {
					a.t.Errorf("%d READ responses in flight, want %d", got, want)
				}
			}
		}
		if pool := &s.engine.reorder; pool.used != buffered || buffered > s.engine.cfg.Reorder {
			a.t.Errorf("%d buffers are in use for %d buffered packets, of at most %d", pool.used, buffered, s.engine.cfg.Reorder)
		}
		for _, r := range s.engine.routes.routes {
			if spent := r.spent.Load(); spent < 0 || spent != charged {
				a.t.Errorf("%d bytes are charged to the route, of which the queue pairs know %d", spent, charged)
			}
			if spent := r.readCredit.spent.Load(); spent != reads {
				a.t.Errorf("%d bytes are charged to the receive buffer, of which the queue pairs know %d", spent, reads)
			}
			if w := r.window.Load(); w < 1 || w > r.controller.limit {
				a.t.Errorf("the route's window is %d bytes", w)
			}
		}
	}
}

// countReads counts the READ response packets in flight, one by one.
func (qp *QP) countReads() (n int64) {
	r := &qp.req
	for i := r.head; i != r.tail; i++ {
		if w := r.wqe(i); w.started && w.wr.Opcode == verbs.OpRDMARead {
			n += max(0, min(w.end(), r.nxt)-max(w.first, r.una))
		}
	}
	return n
}

// guard checks the memory that nobody may write.
func (a *arena) guard() {
	for _, p := range a.players {
		for i, r := range p.rooms {
			if r.before != nil && !bytes.Equal(r.mem, r.before) {
				a.t.Errorf("memory %d, which nobody may write, has changed", i)
			}
		}
	}
}

// end stops and closes everything. Then nothing may be left, and nothing may be sent any more.
func (a *arena) end() {
	a.guard()
	for _, p := range a.players {
		if p.qp.Query().State != qpstate.Reset {
			p.modify(qpstate.Attr{State: qpstate.Error}, 0)
		}
		a.check()
		if err := p.qp.Close(); err != nil {
			a.t.Error(err)
		}
		if p.handle != nil {
			_ = verbs.ProviderOf(p.handle).(*AH).Close()
		}
	}
	a.check()
	for _, s := range a.net.nodes {
		e := s.engine
		for _, b := range e.Transmit(a.net.now, s.out) {
			a.t.Errorf("%d packets were sent by a closed queue pair", b.Packets())
		}
		routes := -2 * len(e.routes.unused) // those that address handles used last are kept
		for _, in := range e.routes.readCredits {
			routes += in.routes
		}
		routes += len(e.routes.routes)
		if _, timer := e.Deadline(); len(e.qps) > 0 || routes != 0 || e.reorder.used+len(e.reorder.free) > 0 || e.Ready() || timer {
			a.t.Errorf("closed, and %d queue pairs, %d uses of routes, buffers of %d packets are left, ready %v, timer %v",
				len(e.qps), routes, e.reorder.used+len(e.reorder.free), e.Ready(), timer)
		}
	}
}
