// The objects: the engine's own, in the shape that verbs asks of a provider. Those
// of memory are in memory.go.

package softroce

import (
	"net"
	"sync/atomic"
	"syscall"

	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// pd is a protection domain.
type pd struct {
	d  *device
	pd *transport.PD
}

func (d *device) AllocPD() (verbs.PDProvider, error) { return &pd{d, d.engine.AllocPD()}, nil }

func (p *pd) CreateAH(attr verbs.AHAttr) (verbs.AHProvider, error) {
	return orError[verbs.AHProvider](p.pd.CreateAH(attr))
}

func (p *pd) Close() error { return nil }

// channel is a completion channel: its CQs wake their waiters without it.
type channel struct{}

func (d *device) CreateCompChannel() (verbs.CompChannelProvider, error) { return channel{}, nil }

func (channel) Close() error { return nil }

// cq is a completion queue.
type cq struct {
	d      *device
	cq     *transport.CQ
	closed atomic.Bool
	woken  atomic.Bool // since the last leader looked
}

func (d *device) CreateCQ(depth int, ch verbs.CompChannelProvider, vector int, wake func()) (verbs.CQProvider, error) {
	if vector != 0 {
		return nil, syscall.EINVAL
	}
	c := &cq{d: d}
	var notify func()
	if ch != nil {
		notify = func() {
			d.woke.Store(true)
			c.woken.Store(true)
			wake()
			d.interruptLeader()
		}
	}
	var err error
	if c.cq, err = d.engine.CreateCQ(depth, notify); err != nil {
		return nil, err
	}
	c.cq.User = c
	return c, nil
}

func (c *cq) Depth() int { return c.cq.Depth() }

func (c *cq) Poll(wcs []verbs.WC) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	return c.cq.Poll(wcs), nil
}

func (c *cq) Arm(solicitedOnly bool) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	c.cq.Arm(solicitedOnly)
	return nil
}

func (c *cq) Close() error {
	c.closed.Store(true)
	c.d.interruptLeader()
	return nil
}

// qp is a queue pair.
type qp struct {
	d      *device
	qp     *transport.QP
	closed atomic.Bool
}

func (p *pd) CreateQP(init verbs.QPInitProvider) (verbs.QPProvider, error) {
	if init.PostPath == verbs.PostBuilder {
		return nil, syscall.EOPNOTSUPP
	}
	q, err := p.pd.CreateQP(transport.QPInit{
		Type: init.Type, SendCQ: init.SendCQ.(*cq).cq, RecvCQ: init.RecvCQ.(*cq).cq, Cap: init.Cap, SigAll: init.SigAll,
	})
	if err != nil {
		return nil, err
	}
	return &qp{d: p.d, qp: q}, nil
}

func (q *qp) QPN() uint32      { return q.qp.QPN() }
func (q *qp) Cap() verbs.QPCap { return q.qp.Cap() }

func (q *qp) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	err := q.qp.Modify(attr, mask)
	q.d.kick()
	return err
}

func (q *qp) Query(verbs.QPAttrMask) (verbs.QPAttr, error) { return q.qp.Query(), nil }

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if q.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := q.qp.PostSend(wrs)
	q.d.kick()
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
	q.d.kick()
	return q.orClosed(err)
}

// orClosed is for a post that met Close: the engine's queue pair is in RESET then,
// which is no news to the poster.
func (q *qp) orClosed(err error) error {
	if err != nil && q.closed.Load() {
		return net.ErrClosed
	}
	return err
}

func (q *qp) Close() error {
	q.closed.Store(true)
	defer q.d.alarm.arm() // what was armed for this queue pair may have been the earliest
	return q.qp.Close()
}
