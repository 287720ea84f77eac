// The engine: one device's objects by number, and the three ways into it: what
// came, what time it is, what there is to send.

package transport

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// What an engine grants at most. They are for the device's attributes too.
const (
	MaxQPWR     = 16384 // work requests on one queue
	MaxSGE      = 32    // elements of one work request
	MaxInline   = 1024  // bytes of inline data
	MaxCQE      = 65536 // completions in one CQ
	MaxRdAtomic = 128   // READs and atomics of one QP, either way
	MaxMessage  = 1 << 30
)

// Config is what an engine needs from the device around it.
type Config struct {
	// Resolve makes the path of an address vector: it looks up the GID index
	// and whatever the link needs to send there. Its error is what Modify or
	// CreateAH fails with. IsGlobal and PortNum were checked. It is called with
	// the queue pair's lock held: it must not call the engine.
	Resolve func(*qpstate.AHAttr) (*Path, error)
	// Event takes asynchronous events. It is called with locks held: it must
	// not block, nor call the engine. nil throws them away.
	Event func(Event)
	// Rand gives queue pair numbers and keys, which a peer must not guess: a
	// ChaCha8 with a random seed will do.
	Rand rand.Source
	// MTU is the port's active MTU, and so the longest UD message.
	MTU qpstate.MTU
	// ReadChunk is the packets asked for by one READ request; 0 means 16. Large
	// READs are split, so that a response cannot overrun this side's socket.
	ReadChunk int
	// Window is the packets of one queue pair that may be under way at most; 0
	// means 256. What is good adapts below it: each packet lost to a socket buffer
	// too small costs a return to it.
	Window int
}

// Engine is the protocol machine of one device. All methods of it and of its
// objects may be called by several goroutines at once.
type Engine struct {
	cfg Config

	randMu sync.Mutex

	qpMu sync.RWMutex
	qps  map[uint32]*QP
	srqs atomic.Uint32 // made so far

	groups   groupTable
	keys     keyTable
	ready    readyList
	timers   timerHeap
	counters counters
}

// New makes an engine without objects.
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
	e.timers.reset()
	return e
}

// Event is an asynchronous event, with the object that it is about.
type Event struct {
	Type verbs.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// PD is a protection domain: regions and queue pairs work together only within
// one. It counts no children; package verbs does.
type PD struct{ engine *Engine }

// AllocPD makes a protection domain.
func (e *Engine) AllocPD() *PD { return &PD{engine: e} }

// random gives 32 unguessable bits.
func (e *Engine) random() uint32 {
	e.randMu.Lock()
	defer e.randMu.Unlock()
	return uint32(e.cfg.Rand.Uint64() >> 32)
}

// addQP gives qp a free number, at random so that packets of a queue pair that
// is gone do not meet its successor. 0 and 1 are special, all ones is multicast.
func (e *Engine) addQP(qp *QP) error {
	e.qpMu.Lock()
	defer e.qpMu.Unlock()
	if len(e.qps) >= 1<<20 {
		return syscall.ENOMEM
	}
	for {
		qpn := e.random() & 0xffffff
		if _, taken := e.qps[qpn]; !taken && qpn > 1 && qpn != verbs.MulticastQPN {
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
}

// QP finds a queue pair by number, nil if there is none.
func (e *Engine) QP(qpn uint32) *QP {
	e.qpMu.RLock()
	defer e.qpMu.RUnlock()
	return e.qps[qpn]
}

// Datagram is a UDP payload that came, with what its IP header said. The engine
// keeps nothing of it after Receive returns.
type Datagram struct {
	Data     []byte
	Src, Dst netip.Addr // unmapped
	TOS, TTL uint8      // for the GRH of a UD receive; zeros will do
}

// Receive takes in datagrams, whose ICRC the caller has verified. What the
// protocol forbids is dropped and counted. Transmit must be called afterwards.
func (e *Engine) Receive(now time.Duration, batch []Datagram) {
	var qp *QP // locked, for as long as packets for it follow each other
	for i := range batch {
		d := &batch[i]
		p, err := packet.Parse(d.Data)
		if !p.HasBTH() {
			e.counters.add(DropMalformed, 1)
			continue
		}
		qpn := p.BTH().DestQPN()
		if qp == nil || qp.qpn != qpn {
			if qp != nil {
				qp.unlock()
			}
			if qp = nil; err == nil && qpn == verbs.MulticastQPN {
				e.receiveGroup(now, p, d)
				continue
			}
			if qp = e.QP(qpn); qp == nil || d.Dst.IsMulticast() { // only MulticastQPN is for groups
				qp = nil
				e.counters.add(DropNoQP, 1)
				continue
			}
			qp.mu.Lock()
		}
		if err != nil {
			qp.receiveMalformed(p, d)
			continue
		}
		qp.receive(now, p, d)
	}
	if qp != nil {
		qp.unlock()
	}
	e.counters.add(RxPackets, uint64(len(batch)))
}

// Advance tells the time: retransmissions and RNR waits that are due happen.
// Transmit must be called afterwards.
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

// Deadline is when Advance must be called next; false if there is no need. It
// moves with every call of Transmit, Receive and Advance, and is cheap.
func (e *Engine) Deadline() (time.Duration, bool) {
	at := time.Duration(e.timers.first.Load())
	return at, at != never
}
