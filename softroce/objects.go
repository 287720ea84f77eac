// The objects of a provider for package verbs, made from the engine's objects. Memory regions
// and windows are in memory.go.
//
// Posting, modifying and closing a queue pair call the engine and then kick, which sends what
// follows.

package softroce

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// pd is a protection domain.
type pd struct {
	d  *device
	pd *transport.PD
}

func (d *device) AllocPD() (verbs.ProviderPD, error) {
	p, err := d.engine.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd{d, p}, nil
}

func (p *pd) CreateAH(attr verbs.AHAttr) (verbs.ProviderAH, error) {
	return orError[verbs.ProviderAH](p.pd.CreateAH(attr))
}

func (p *pd) Close() error { return p.pd.Close() }

// channel is a completion channel. It holds nothing: CQs wake their waiters directly.
type channel struct{}

func (d *device) CreateCompChannel() (verbs.ProviderCompChannel, error) { return channel{}, nil }

func (channel) Close() error { return nil }

// cq is a completion queue.
type cq struct {
	d      *device
	cq     *transport.CQ
	ex     verbs.WCExFlags
	lost   func()      // called when a completion is lost; the engine's locks are held
	shared atomic.Bool // a program in C polls it
	closed atomic.Bool
	spins  *turn.Waiter // of goroutines that poll
	delay  *time.Timer  // the timer of CQ moderation
	yields yields       // see await.go
	vector int
	home   atomic.Pointer[receiver] // where the packets for its queue pair arrive that was connected last; nil: the device has no address

	mu       sync.Mutex
	sleepers []sleeper // goroutines in Sleep
}

// wcEx has the fields that an extended CQ offers. The other fields have no meaning here.
const wcEx = verbs.WCExStandard | verbs.WCExTimestamp | verbs.WCExWallclock

// CompVectors returns the number of completion vectors. The packets for a CQ's queue pairs are received by its vector's receiver.
func (d *device) CompVectors() int { return d.vectors }

func (d *device) CreateCQ(init verbs.ProviderCQInit) (verbs.ProviderCQ, error) {
	if init.Vector < 0 || init.Vector >= d.CompVectors() {
		return nil, syscall.EINVAL
	}
	if init.Ex&^wcEx != 0 || init.Flags&^verbs.CQSingleThreaded != 0 {
		return nil, syscall.EOPNOTSUPP
	}
	c := &cq{d: d, ex: init.Ex, spins: turn.NewWaiter(), vector: init.Vector}
	c.home.Store(d.homeOf(init.Vector))
	wake, overran := init.Wake, init.Overran
	t := transport.CQInit{Depth: init.Depth, Delay: func(period time.Duration) { c.delay.Reset(period) }}
	if init.Channel != nil {
		t.Notify = func() {
			wake()
			c.WakeSleeper()
		}
	}
	c.lost = func() {
		if overran != nil && !c.shared.Load() {
			overran()
		}
		if t.Notify != nil {
			t.Notify()
		}
	}
	if init.Ex&(verbs.WCExTimestamp|verbs.WCExWallclock) != 0 {
		t.Stamp = func() int64 { return int64(d.now()) }
	}
	var err error
	if c.cq, err = d.engine.CreateCQ(t); err != nil {
		return nil, err
	}
	c.cq.User = c
	c.delay = time.AfterFunc(time.Hour, c.cq.Due)
	c.delay.Stop()
	return c, nil
}

func (c *cq) Depth() int { return c.cq.Depth() }

func (c *cq) Poll(wcs []verbs.WC) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	return c.cq.Poll(wcs), nil
}

func (c *cq) PollEx(wcs []verbs.WCEx) (int, error) {
	switch {
	case c.closed.Load():
		return 0, net.ErrClosed
	case c.ex == 0:
		return 0, syscall.EINVAL
	}
	n := c.cq.PollEx(wcs)
	for i := range wcs[:n] {
		if c.ex&verbs.WCExWallclock != 0 {
			wcs[i].WallclockNS = uint64(c.d.start.UnixNano()) + wcs[i].Timestamp
		}
		if c.ex&verbs.WCExTimestamp == 0 {
			wcs[i].Timestamp = 0
		}
	}
	return n, nil
}

func (c *cq) Arm(solicitedOnly bool) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	c.cq.Arm(solicitedOnly)
	return nil
}

func (c *cq) Resize(depth int) error { return c.cq.Resize(depth) }

// Share moves the completions into a ring that a program in C polls, and makes the CQ call notify
// for events. Such a program learns of an overrun by its event alone, as libibverbs' programs do. head and tail count completions; the lengths are transport.RingLength(depth).
// Nothing may poll meanwhile. stamps may be nil; its times are in nanoseconds, as of QueryRawClock.
func (c *cq) Share(wcs []verbs.WC, stamps []int64, head, tail *uint32, depth int, notify func()) error {
	if err := c.cq.MoveTo(transport.Ring{WCs: wcs, Stamps: stamps, Head: head, Tail: tail}, depth); err != nil {
		return err
	}
	c.cq.SetNotify(notify)
	c.shared.Store(true)
	return nil
}

func (c *cq) Moderate(count int, period time.Duration) error {
	c.cq.Moderate(count, period)
	return nil
}

func (c *cq) Close() error {
	c.closed.Store(true)
	c.delay.Stop()
	c.WakeSleeper()
	return c.cq.Close()
}

// srq is a shared receive queue.
type srq struct {
	srq    *transport.SRQ
	closed atomic.Bool
}

func (p *pd) CreateSRQ(init verbs.SRQInit) (verbs.ProviderSRQ, error) {
	t, err := p.pd.CreateSRQ(init.MaxWR, init.MaxSGE)
	if err != nil {
		return nil, err
	}
	s := &srq{srq: t}
	t.User = s
	return s, nil
}

func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	return s.srq.PostRecv(wrs)
}

func (s *srq) Modify(attr verbs.SRQAttr, mask verbs.SRQAttrMask) error {
	return s.srq.Modify(attr, mask)
}

func (s *srq) Query() (verbs.SRQAttr, error) { return s.srq.Query(), nil }

func (s *srq) Number() (uint32, error) { return s.srq.Number(), nil }

func (s *srq) Close() error {
	s.closed.Store(true)
	return s.srq.Close()
}

// qp is a queue pair.
type qp struct {
	d      *device
	qp     *transport.QP
	cqs    [2]*cq // for sends and receives
	closed atomic.Bool
}

func (p *pd) CreateQP(init verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	if init.PostPath == verbs.PostWRAPI {
		return nil, syscall.EOPNOTSUPP
	}
	send, recv := init.SendCQ.(*cq), init.RecvCQ.(*cq)
	t := transport.QPInit{
		Type: init.Type, SendCQ: send.cq, RecvCQ: recv.cq, Cap: init.Cap, SigAll: init.SigAll, Vector: recv.vector, Vectors: p.d.vectors,
	}
	if init.SRQ != nil {
		t.SRQ = init.SRQ.(*srq).srq
	}
	q, err := p.pd.CreateQP(t)
	if err != nil {
		return nil, err
	}
	return &qp{d: p.d, qp: q, cqs: [2]*cq{send, recv}}, nil
}

func (q *qp) QPN() uint32      { return q.qp.QPN() }
func (q *qp) Cap() verbs.QPCap { return q.qp.Cap() }

func (q *qp) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if mask&qpstate.MaskState != 0 && (attr.State == qpstate.Error || attr.State == qpstate.Reset) {
		q.waitAnswered()
	}
	err := q.qp.Modify(attr, mask)
	if err == nil && mask&qpstate.MaskAV != 0 {
		q.settle(&attr.AH)
	}
	q.d.kick(q.QPN())
	return err
}

// settle notes where the peer's packets will arrive.
func (q *qp) settle(ah *verbs.AHAttr) {
	home := q.d.portAt(ah.GRH.SGIDIndex).receiverOf(q.QPN(), ah.GRH.DGID.Addr(), q.d)
	for _, c := range q.cqs {
		c.home.Store(home)
	}
}

func (q *qp) Query(verbs.QPAttrMask) (verbs.QPAttr, error) { return q.qp.Query(), nil }

// MissedReceives counts messages of UC and UD.
func (q *qp) MissedReceives() uint64 { return q.qp.MissedReceives() }

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if q.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := q.qp.PostSend(wrs)
	q.d.kick(q.QPN())
	return n, q.orClosed(err)
}

func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := q.qp.PostRecv(wrs)
	return n, q.orClosed(err)
}

func (q *qp) BindMW(id uint64, flags verbs.SendFlags, b *verbs.MWBind) error {
	if q.closed.Load() {
		return net.ErrClosed
	}
	err := q.qp.BindMW(id, flags, b)
	q.d.kick(q.QPN())
	return q.orClosed(err)
}

// orClosed replaces the error of a post that ran during Close. Close has moved the engine's
// queue pair to RESET, and EINVAL would mislead the caller.
func (q *qp) orClosed(err error) error {
	if err != nil && q.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// waitAnswered sends the ACK or NAK that is due, before the queue pair ends. The goroutine that
// received the request may not have sent it yet (receive.go). Without the answer, the peer's work
// request fails with RETRY_EXC_ERR.
func (q *qp) waitAnswered() {
	q.d.waitSent(func() *transport.QP {
		if q.qp.OwesAnswer() {
			return q.qp
		}
		return nil
	})
}

func (q *qp) Close() error {
	q.waitAnswered()
	q.closed.Store(true)
	if err := q.qp.Close(); err != nil {
		q.closed.Store(false) // it is still attached to a multicast group
		return err
	}
	q.d.kick(q.QPN()) // other queue pairs may have waited for the room that this one used
	return nil
}
