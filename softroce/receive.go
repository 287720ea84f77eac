// Receiving, by the port's own goroutine or by one that waits for a completion (lead.go). Whoever receives passes the packets to the
// engine, and sends what follows: acknowledgements, responses and the next packets of the window.
// docs/design/waiting.md describes whose turn it is, and the hand-over.

package softroce

import (
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	receiverRounds = 4 // rounds of sending before the next receive
	receiveTries   = 100
	receivePause   = 10 * time.Millisecond
)

// standByTick is the time between two looks of a port's goroutine, or a standby thread, that stands by. Tests replace it.
var standByTick = time.Millisecond

// receiver receives with one link.
type receiver struct {
	d          *device
	link       link.Link
	postDriver *driver       // sends what receiving leaves to another goroutine; nil if nothing can follow: datagrams to a group
	tick       time.Duration // standByTick

	turn.Turn
	own    *turn.Waiter  // of the port's goroutine
	other  *turn.Waiter  // of a goroutine that takes the turn for a moment; its holder has taking
	led    atomic.Uint64 // how often a goroutine has led, or received between two polls
	taking sync.Mutex

	// For whoever has the turn:
	in         *link.Ingress
	sender     driver
	watched    [2]ctxwatch.Watch // the contexts of the last leader
	failures   int               // of rounds in a row
	pollsFirst bool              // a wait may begin with polling; see await.go
	patience   patience
	heard      heard
	owes       bool // packets were received and are not answered yet

	waits   atomic.Bool // whoever has the turn waits for packets, or is about to
	retired atomic.Bool // the port's goroutine must end; see attend_linux.go

	try func(*link.Ingress) error // receives without waiting; nil if the link must wait
}

func newReceiver(d *device, l link.Link, postDriver *driver) *receiver {
	r := &receiver{d: d, link: l, postDriver: postDriver, in: link.NewIngress(), heard: heard{buffer: socketBytes(l.Status().ReceiveBuffer)}, tick: standByTick,
		own: turn.NewWaiter(), other: turn.NewWaiter(), try: link.Trying(l)}
	r.Interrupt = func() {
		if r.waits.Load() {
			r.link.Interrupt()
		}
	}
	r.pollsFirst = r.try != nil && mayPoll()
	if postDriver != nil {
		r.sender.init(d)
	}
	return r
}

// run is the port's goroutine. It returns when the link is closed or the receiver is retired.
func (r *receiver) run() {
	r.Lock()
	defer r.Unlock()
	over := false
	r.Stand(r.own, r.tick, func() bool { return over || r.retired.Load() }, func() error {
		over = r.attend()
		return nil
	})
}

// attend is a round of the port's goroutine. It returns true if the link is closed, or fails again and again.
func (r *receiver) attend() (over bool) {
	err := r.work(nil)
	if errors.Is(err, net.ErrClosed) {
		for i := range r.watched {
			r.watched[i].End()
		}
		return true
	}
	return err != nil && !errors.Is(err, link.ErrInterrupted) && r.failures >= receiveTries
}

// work is a round that waits for packets. The caller has the turn and holds the mutex, which work releases meanwhile.
func (r *receiver) work(c *cq) error {
	r.waits.Store(true) // before others can want the turn
	r.Unlock()
	defer r.Lock()
	return r.round(c, r.await)
}

// round receives packets once and answers them. A completion for c, which may be nil, is not answered yet, because c's program
// will probably post something. The caller has the turn.
func (r *receiver) round(c *cq, receive func(*link.Ingress) error) error {
	r.settle()
	before := pushedTo(c)
	err := receive(r.in)
	switch {
	case err == nil:
		r.process()
		if r.owes = pushedTo(c) != before; !r.owes {
			r.answer()
		}
	case !errors.Is(err, link.ErrInterrupted) && !errors.Is(err, net.ErrClosed):
		r.failed()
	}
	return err
}

// pushedTo returns how many completions a CQ has got; 0 for none.
func pushedTo(c *cq) uint32 {
	if c == nil {
		return 0
	}
	return c.cq.Pushed()
}

// lock takes the turn from the goroutine that receives there, and unlock gives it back.
func (r *receiver) lock() {
	r.taking.Lock()
	r.Take(r.other)
}

func (r *receiver) unlock() {
	r.Give()
	r.taking.Unlock()
}

// process passes the received packets to the engine.
func (r *receiver) process() {
	r.failures = 0
	bytes := 0
	for i := range r.in.Packets {
		bytes += len(r.in.Packets[i].Data)
	}
	now := r.d.now()
	r.d.engine.Receive(now, r.in.Packets)
	r.heard.received(bytes, now, r.in.Emptied)
	r.in.Emptied = false
	r.d.traffic.moved(bytes, 0)
}

// failed pauses: the system lacks some resource, perhaps only for a moment. After receiveTries failures in a row the device
// has failed.
func (r *receiver) failed() {
	if r.failures++; r.failures == receiveTries {
		r.d.events.Put(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
	}
	time.Sleep(receivePause)
}

// answer sends what follows from the received packets.
func (r *receiver) answer() {
	if r.postDriver == nil { // nothing can follow: datagrams to a group
		return
	}
	if _, more := r.sender.send(receiverRounds); more {
		go r.postDriver.drive(math.MaxInt) // another goroutine sends the rest, so that this one can receive
	}
}

// settle sends the answer that an earlier round left.
func (r *receiver) settle() {
	if r.owes {
		r.owes = false
		r.answer()
	}
}
