// The engine: a device's objects by number, and its three entry points: Receive for packets,
// Advance for the time, and Transmit (transmit.go) for what there is to send.
//
// Receive locks each queue pair once per run of packets for it. Transmit must follow Receive
// and Advance, because both may give queue pairs something to send.

package transport

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// Limits of an engine, also reported in the device's attributes.
const (
	MaxQPWR     = 16384 // work requests in one queue
	MaxSGE      = 32    // elements in one work request
	MaxInline   = 1024  // bytes of inline data
	MaxCQE      = 65536 // completions in one CQ
	MaxRdAtomic = 128   // READs and atomics of one QP, in each direction
	MaxMessage  = 1 << 30

	MaxQP  = 1 << 16 // of a few kilobytes each, and more with deep queues
	MaxCQ  = 1 << 16
	MaxSRQ = 1 << 16
	MaxPD  = 1 << 20
	MaxAH  = 1 << 20
	MaxMR  = 1 << 20 // with MaxMW, few of the 2²⁴ indexes of keys, so that a random one seldom is taken
	MaxMW  = 1 << 20
)

// tally counts the objects of a kind that are open.
type tally struct{ n atomic.Int32 }

// add returns ENOMEM if there are limit objects.
func (t *tally) add(limit int32) error {
	if t.n.Add(1) > limit {
		t.n.Add(-1)
		return syscall.ENOMEM
	}
	return nil
}

func (t *tally) drop() { t.n.Add(-1) }

// Config configures an engine.
type Config struct {
	// Resolve returns the path of an address vector. It looks up the GID index and what
	// the link needs to send there. Modify and CreateAH return its error. IsGlobal and
	// PortNum are checked before. Resolve runs with the queue pair's lock held, so it must
	// not call the engine.
	Resolve func(*qpstate.AHAttr) (*Path, error)
	// Event receives asynchronous events. It runs with locks held, so it must not block or
	// call the engine. If Event is nil, events are dropped.
	Event func(Event)
	// Rand generates queue pair numbers and keys. A peer must not be able to guess them;
	// a ChaCha8 with a random seed is good enough.
	Rand rand.Source
	// MTU is the port's active MTU. It limits the length of UD messages.
	MTU qpstate.MTU
	// ReadChunk is the number of response packets that one READ request asks for; 0 means
	// 16. Large READs are split, so that the responses do not overrun this side's socket.
	ReadChunk int
	// Window is the maximum number of packets in flight per queue pair; 0 means 256. All queue pairs to one
	// address share a window besides (route.go), because every packet that overruns a socket buffer costs a round
	// trip or more.
	Window int
	// Reorder is the number of packets that the engine buffers because an earlier one is missing
	// (reorder.go). With 0 it recovers from losses exactly as the standard describes: it drops
	// such packets, goes back, and waits for the ACK timeout.
	Reorder int
	// Reply returns the path from this device's address from to the address to, from which a datagram
	// came; nil if there is none. UD sends CNPs on it. Reply runs with the queue pair's lock held, so it
	// must not call the engine. nil: UD sends no CNPs.
	Reply func(from, to netip.Addr) *Path
	// Full returns true if the receiver at the end of a path has no room for n bytes now. UC and
	// UD then wait, because nobody sends their lost packets again. Full runs with the queue
	// pair's lock held, so it must not call the engine. nil: receivers always have room.
	Full func(p *Path, n int) bool
	// Unread returns true if a packet that was sent on a path at a time, or its answer, may lie unread: this
	// side or the peer gets too little processor time (starved.go). Unread runs with the queue pair's lock
	// held, so it must not call the engine. nil: never.
	Unread func(p *Path, since time.Duration) bool
}

// Engine is the protocol machine of one device. Several goroutines may call its methods, and
// those of its objects, at once.
type Engine struct {
	cfg         Config
	networkInSL bool // see NetworkInSL

	randMu sync.Mutex

	qpMu sync.RWMutex
	qps  map[uint32]*QP
	srqs atomic.Uint32 // number of SRQs made so far

	openPDs, openCQs, openSRQs, openAHs tally

	groups   groupTable
	keys     keyTable
	ready    readyList
	timers   timerHeap
	reorder  reorderPool
	routes   routeTable
	counters counters
}

// New returns an engine without objects.
func New(cfg Config) *Engine {
	if cfg.Event == nil {
		cfg.Event = func(Event) {}
	}
	if cfg.ReadChunk == 0 {
		cfg.ReadChunk = 16
	}
	if cfg.Window == 0 {
		cfg.Window = 256
	}
	e := &Engine{cfg: cfg, qps: make(map[uint32]*QP)}
	e.keys.regions = make(map[uint32]*MR)
	e.groups.members = make(map[netip.Addr][]*QP)
	e.routes.most = int64(cfg.Window * qpstate.MTU4096.Bytes())
	e.routes.routes = make(map[routeKey]*route)
	e.routes.readCredits = make(map[netip.Addr]*readCredit)
	e.timers.reset()
	return e
}

// Event is an asynchronous event and the object that it concerns. The other fields are nil.
type Event struct {
	Type verbs.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// PD is a protection domain. Regions and queue pairs work together only within one domain. A
// PD does not count its children; package verbs does.
type PD struct{ engine *Engine }

// AllocPD returns a new protection domain. It returns ENOMEM if there are MaxPD.
func (e *Engine) AllocPD() (*PD, error) {
	if err := e.openPDs.add(MaxPD); err != nil {
		return nil, err
	}
	return &PD{engine: e}, nil
}

// Close must be called once.
func (pd *PD) Close() error {
	pd.engine.openPDs.drop()
	return nil
}

// random returns 32 bits that a peer cannot guess.
func (e *Engine) random() uint32 {
	e.randMu.Lock()
	defer e.randMu.Unlock()
	return uint32(e.cfg.Rand.Uint64() >> 32)
}

// addQP gives qp a free number, which is vector modulo vectors. The number is random, so that packets for a closed
// queue pair do not reach its successor. 0 and 1 are special; all ones means multicast.
func (e *Engine) addQP(qp *QP, vector, vectors uint32) error {
	e.qpMu.Lock()
	defer e.qpMu.Unlock()
	if len(e.qps) >= MaxQP {
		return syscall.ENOMEM
	}
	for {
		qpn := e.random() & 0xffffff
		qpn += vector - qpn%vectors
		if _, taken := e.qps[qpn]; !taken && qpn > 1 && qpn < verbs.MulticastQPN {
			qp.qpn = qpn
			e.qps[qpn] = qp
			return nil
		}
	}
}

func (e *Engine) removeQP(qp *QP) {
	e.qpMu.Lock()
	defer e.qpMu.Unlock()
	delete(e.qps, qp.qpn)
	if len(e.qps) == 0 {
		e.reorder.drop()
	}
}

// QP returns the queue pair with a number, or nil if there is none.
func (e *Engine) QP(qpn uint32) *QP {
	e.qpMu.RLock()
	defer e.qpMu.RUnlock()
	return e.qps[qpn]
}

// Datagram is a received UDP payload with the fields of its IP header. The engine does not
// keep any of it after Receive returns.
type Datagram = packet.Received

// Receive processes datagrams. The caller has verified their ICRCs. Packets that the protocol
// forbids are dropped and counted. Transmit must be called afterwards.
func (e *Engine) Receive(now time.Duration, batch []Datagram) {
	r := receiving{engine: e, now: now}
	acknowledgmentsFirst(batch, r.packets)
	r.lock(nil)
	e.counters.add(RxPackets, uint64(len(batch)))
}

// acknowledgmentsFirst passes a batch to take, with each ACK before the requests that it came behind; see QP.next. An ACK stays
// behind a READ or atomic response, which it acknowledges too. take gets consecutive packets and returns how many it took.
func acknowledgmentsFirst(batch []Datagram, take func([]Datagram) int) {
	for rest := batch; len(rest) > 0; {
		n, late := overtaken(rest)
		for i := 0; late && i < n; i++ {
			if acknowledges(&rest[i]) {
				take(rest[i : i+1])
			}
		}
		for i := 0; i < n; {
			if late && acknowledges(&rest[i]) {
				i++
				continue
			}
			i += take(rest[i:n])
		}
		rest = rest[n:]
	}
}

// receiving is one Receive. qp is locked while consecutive packets are for it.
type receiving struct {
	engine *Engine
	now    time.Duration
	qp     *QP
}

// lock locks the queue pair of the next packets, if any, and unlocks the one before.
func (r *receiving) lock(qp *QP) {
	if r.qp != nil {
		r.qp.unlock()
	}
	if r.qp = qp; qp != nil {
		qp.mu.Lock()
	}
}

// packets processes the packets at the beginning of a batch that may be a run, or one packet. It returns how many packets.
func (r *receiving) packets(batch []Datagram) int {
	n := 1
	if d := &batch[0]; r.qp != nil && len(d.Data) >= len(packet.BTH{}) && (*packet.BTH)(d.Data).DestQPN() == r.qp.qpn {
		n = max(alike(batch), 1)
	}
	served := 0
	if n > 1 {
		if p, err := packet.Parse(batch[0].Data); err == nil {
			served = r.qp.receiveRun(r.now, p, batch[:n])
		}
	}
	if served > 0 {
		return served
	}
	for i := range n {
		r.packet(&batch[i])
	}
	return n
}

// packet processes one packet.
func (r *receiving) packet(d *Datagram) {
	p, err := packet.Parse(d.Data)
	if !p.HasBTH() {
		r.engine.counters.add(DropMalformed, 1)
		return
	}
	qpn := p.BTH().DestQPN()
	if r.qp == nil || r.qp.qpn != qpn {
		r.lock(nil)
		if err == nil && qpn == verbs.MulticastQPN {
			r.engine.receiveGroup(r.now, p, d)
			return
		}
		qp := r.engine.QP(qpn)
		if qp == nil || d.Dst.IsMulticast() { // only packets for MulticastQPN go to groups
			r.engine.counters.add(DropNoQP, 1)
			return
		}
		r.lock(qp)
	}
	if err != nil {
		r.qp.receiveMalformed(p, d)
		return
	}
	r.qp.receive(r.now, p, d)
}

// overtaken returns how many packets at the beginning of a batch are of one peer and let ACKs pass, or are responses that do
// not, and whether an ACK is behind a request there.
func overtaken(batch []Datagram) (n int, late bool) {
	request, responses := false, false
	for ; n < len(batch) && len(batch[n].Data) > 0 && batch[n].Src == batch[0].Src; n++ {
		ack := acknowledges(&batch[n])
		response := !ack && packet.Opcode(batch[n].Data[0]).IsResponse()
		if n == 0 {
			responses = response
		} else if response != responses {
			break
		}
		late, request = late || ack && request, request || !ack
	}
	return max(n, 1), late
}

func acknowledges(d *Datagram) bool { return packet.Opcode(d.Data[0]) == packet.RCAcknowledge }

// Advance handles the ACK timeouts, RNR waits, and waits for room or for a rate that have expired at now. Transmit must be
// called afterwards.
func (e *Engine) Advance(now time.Duration) {
	for {
		qp := e.timers.due(now)
		if qp == nil {
			return
		}
		qp.mu.Lock()
		qp.alarm = never
		qp.expire(now)
		qp.unlock()
	}
}

// EndWaits makes the next Transmit send the ACKs that wait for a request.
func (e *Engine) EndWaits() {
	e.qpMu.RLock()
	qps := slices.Collect(maps.Values(e.qps))
	e.qpMu.RUnlock()
	for _, qp := range qps {
		qp.OwesAnswer()
	}
}

// Deadline returns when Advance must be called next, and false if no timer is running. The
// deadline may change with every call of Transmit, Receive and Advance. Deadline is cheap.
func (e *Engine) Deadline() (time.Duration, bool) {
	at := time.Duration(e.timers.first.Load())
	return at, at != never
}
