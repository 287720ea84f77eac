// A connection's queue pairs: their limits, their creation, and their moves to RTS.

package rc

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// queuePair is one queue pair, the machine that moves it, and both ends' endpoints.
type queuePair struct {
	*verbs.QP
	machine     *qpstate.Machine
	local, peer oob.Endpoint
	ah          *verbs.AH       // UD: the peer's address; nil before INIT→RTR
	sends       *dispatch.Queue // requests of Do
	recvs       *dispatch.Queue // requests of Recv; nil with an SRQ
}

// drainWRs is the number of places in a queue for the marks of drain, in addition to the program's requests.
const drainWRs = 1

// checkQueues refuses sizes that the protocol or the device does not allow. conns Conns share the
// completion queues.
func (c *Config) checkQueues(dev *verbs.Device, limits verbs.DeviceAttr, conns int) error {
	mostQPs := oob.MaxEndpoints
	if c.Exchange != nil {
		mostQPs = math.MaxUint8 + 1 // oob.Endpoint.Index has 8 bits
	}
	if c.QPs < 1 || c.QPs > mostQPs {
		return errors.Errorf("a connection cannot have %d queue pairs; try: 1 to %d", c.QPs, mostQPs)
	}
	for _, queue := range []struct {
		name string
		wrs  int
	}{{"send", int(c.Cap.MaxSendWR)}, {"receive", int(c.Cap.MaxRecvWR)}} {
		if most := limits.MaxQPWR - drainWRs; queue.wrs > most {
			return errors.Errorf("a %s queue of %d work requests is more than %s has; try: at most %d (its max_qp_wr of %d, less %d to drain the queue)",
				queue.name, queue.wrs, dev.Name(), most, limits.MaxQPWR, drainWRs)
		}
		if most := limits.MaxCQE/(c.QPs*conns) - drainWRs; queue.wrs > most && conns > 1 {
			return errors.Errorf("%s queues of %d work requests, for %d connections of %d queue pairs, need a deeper completion queue than %s has; try: at most %d each (its max_cqe of %d is shared), or a lower MaxConns",
				queue.name, queue.wrs, conns, c.QPs, dev.Name(), most, limits.MaxCQE)
		} else if queue.wrs > most {
			return errors.Errorf("%s queues of %d work requests, for %d queue pairs, need a deeper completion queue than %s has; try: at most %d each (its max_cqe of %d is shared), or fewer queue pairs",
				queue.name, queue.wrs, c.QPs, dev.Name(), most, limits.MaxCQE)
		}
	}
	if depth := c.sendDepth(conns) + c.recvDepth(conns); c.OneCQ && depth > limits.MaxCQE {
		return errors.Errorf("one completion queue for %d sends and receives is deeper than %s has; try: fewer work requests, or fewer queue pairs (its max_cqe is %d)", depth, dev.Name(), limits.MaxCQE)
	}
	if c.SRQ != nil && int(c.SRQ.MaxWR) > limits.MaxSRQWR {
		return errors.Errorf("a shared receive queue of %d work requests is more than %s has; try: at most %d", c.SRQ.MaxWR, dev.Name(), limits.MaxSRQWR)
	}
	if c.MaxReads < 1 || c.MaxReads > 255 {
		return errors.Errorf("MaxReads cannot be %d; try: 1 to 255", c.MaxReads)
	}
	return nil
}

// sendDepth returns the number of sends of conns Conns that can complete at once; recvDepth returns
// the number of receives.
func (c *Config) sendDepth(conns int) int { return conns * c.QPs * (int(c.Cap.MaxSendWR) + drainWRs) }

func (c *Config) recvDepth(conns int) int {
	if c.SRQ != nil {
		return int(c.SRQ.MaxWR)
	}
	return conns * c.QPs * (int(c.Cap.MaxRecvWR) + drainWRs)
}

// makeQueuePair makes one more queue pair, in RESET, and completes endpoint for the exchange.
func (c *Conn) makeQueuePair(endpoint oob.Endpoint) error {
	cap := c.cfg.Cap
	cap.MaxSendWR += drainWRs
	if c.srq == nil {
		cap.MaxRecvWR += drainWRs
	}
	qp, err := c.pd.CreateQP(verbs.QPInit{Type: c.cfg.Type, SendCQ: c.sendCQ, RecvCQ: c.recvCQ, SRQ: c.srq, Cap: cap, PostPath: c.cfg.PostPath})
	if err != nil {
		return err
	}
	c.own("ibv_destroy_qp", "queue pair "+hex24(qp.QPN()), qp)
	c.events.made("ibv_create_qp", "make queue pair", slog.String("qpn", hex24(qp.QPN())),
		slog.String("type", c.cfg.Type.Name()), slog.String("state", "RESET"), slog.String("cap", fmt.Sprintf("%+v", qp.Cap())))
	endpoint.Index = uint8(len(c.pairs))
	endpoint.QPType, endpoint.QPN, endpoint.PSN = oob.QPType(c.cfg.Type), qp.QPN(), randomPSN()
	if c.cfg.PSN != nil {
		endpoint.PSN = *c.cfg.PSN
	}
	pair := &queuePair{QP: qp, machine: qpstate.NewMachine(c.cfg.Type, qp, c.events.transition(qp)), local: endpoint}
	pair.sends = c.sends.NewQueue(int(c.cfg.Cap.MaxSendWR), func(req *dispatch.Request) error { return qp.PostSend(req.Send[:]) })
	if c.srq == nil {
		pair.recvs = c.recvs.NewQueue(int(c.cfg.Cap.MaxRecvWR), func(req *dispatch.Request) error { return qp.PostRecv(req.Recv[:]) })
	}
	if c.server != nil {
		c.sends.Claim(qp.QPN())
		c.recvs.Claim(qp.QPN())
	}
	c.pairs = append(c.pairs, pair)
	return nil
}

// owns reports whether qpn is the number of one of the queue pairs.
func (c *Conn) owns(qpn uint32) bool {
	return slices.ContainsFunc(c.pairs, func(p *queuePair) bool { return p.QPN() == qpn })
}

// The attributes of the three moves come from the Config and from the peer's endpoint.

func (c *Conn) toInit(ctx context.Context) error {
	return c.moveAll(ctx, func(p *queuePair) error {
		return p.machine.ToInit(verbs.QPAttr{PKeyIndex: 0, PortNum: c.cfg.Port, Access: c.cfg.Access, QKey: c.cfg.QKey})
	})
}

func (c *Conn) toRTR(ctx context.Context) error {
	return c.moveAll(ctx, func(p *queuePair) error {
		attr, _, err := c.attrs(p)
		if err != nil {
			return err
		}
		if err := p.machine.ToRTR(attr); err != nil || c.cfg.Type != verbs.UD {
			return err
		}
		return c.makeAH(p, attr.AH)
	})
}

func (c *Conn) toRTS(ctx context.Context) error {
	return c.moveAll(ctx, func(p *queuePair) error {
		_, attr, err := c.attrs(p)
		if err != nil {
			return err
		}
		return p.machine.ToRTS(attr)
	})
}

// moveAll moves one queue pair after the other, until ctx ends.
func (c *Conn) moveAll(ctx context.Context, move func(*queuePair) error) error {
	return c.interruptible(ctx, func(ctx context.Context) error {
		c.moves.Lock()
		defer c.moves.Unlock()
		for _, p := range c.pairs {
			if ctx.Err() != nil {
				return ctxwatch.Err(ctx)
			}
			if err := move(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// makeAH makes the address handle of a UD peer. A UD queue pair does not store the peer's address.
func (c *Conn) makeAH(p *queuePair, attr verbs.AHAttr) (err error) {
	if p.ah, err = c.pd.CreateAH(attr); err != nil {
		return err
	}
	c.own("ibv_destroy_ah", "address handle of "+hex24(p.peer.QPN), p.ah)
	c.events.made("ibv_create_ah", "make address handle of "+hex24(p.peer.QPN), slog.String("attr", attr.String()))
	return nil
}

// attrs returns the attributes of p's moves to RTR and RTS.
func (c *Conn) attrs(p *queuePair) (rtr, rts verbs.QPAttr, err error) {
	mtu, ok := qpstate.MTUFor(min(p.local.MTU, p.peer.MTU))
	if !ok {
		return rtr, rts, errBadMTU(p.peer.MTU)
	}
	way := c.gid.To(p.peer.GID)
	way.IsGlobal, way.DLID = c.ethernet || p.peer.LID == 0, p.peer.LID
	rtr, rts = endpoint(p.local, mtu).Connect(endpoint(p.peer, mtu), way)
	rtr.MinRNRTimer = c.cfg.Timing.MinRNRTimer
	rts.Timeout, rts.RetryCnt, rts.RNRRetry = c.cfg.Timing.Timeout, c.cfg.Timing.RetryCnt, c.cfg.Timing.RNRRetry
	return rtr, rts, nil
}

// endpoint converts a message's endpoint; mtu is the smaller path MTU of both ends.
func endpoint(e oob.Endpoint, mtu verbs.MTU) verbs.QPEndpoint {
	return verbs.QPEndpoint{QPN: e.QPN, PSN: e.PSN, MTU: mtu, InitiatorDepth: e.InitiatorDepth, ResponderResources: e.ResponderResources}
}
