// A connection's queue pairs: how many there can be, and how each is made and
// moved to RTS. They share the protection domain and both completion queues.

package rc

import (
	"fmt"
	"log/slog"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// queuePair is one queue pair, what moves it, and what each end told of its own.
type queuePair struct {
	*verbs.QP
	machine     *qpstate.Machine
	local, peer oob.Endpoint
}

// The work requests that drain a queue have their place beside the program's.
const drainWRs = 1

// checkQueues refuses what neither a connection nor the device can have.
func (c *Config) checkQueues(dev *verbs.Device, limits verbs.DeviceAttr) error {
	if c.QPs < 1 || c.QPs > oob.MaxEndpoints {
		return fmt.Errorf("a connection of %d queue pairs cannot be had; try: 1 to %d", c.QPs, oob.MaxEndpoints)
	}
	for _, queue := range []struct {
		name string
		wrs  int
	}{{"send", int(c.Cap.MaxSendWR)}, {"receive", int(c.Cap.MaxRecvWR)}} {
		if most := limits.MaxQPWR - drainWRs; queue.wrs > most {
			return fmt.Errorf("a %s queue of %d work requests is more than %s has; try: at most %d (its max_qp_wr of %d, less %d to drain the queue)",
				queue.name, queue.wrs, dev.Name(), most, limits.MaxQPWR, drainWRs)
		}
		if most := limits.MaxCQE/c.QPs - drainWRs; queue.wrs > most {
			return fmt.Errorf("%s queues of %d work requests, for %d queue pairs, need a deeper completion queue than %s has; try: at most %d each (its max_cqe of %d is shared), or fewer queue pairs",
				queue.name, queue.wrs, c.QPs, dev.Name(), most, limits.MaxCQE)
		}
	}
	return nil
}

// makeQueuePair makes one more queue pair, in RESET, with its part of the exchange.
func (c *Conn) makeQueuePair(endpoint oob.Endpoint) error {
	cap := c.cfg.Cap
	cap.MaxSendWR += drainWRs
	cap.MaxRecvWR += drainWRs
	qp, err := c.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: c.sendCQ, RecvCQ: c.recvCQ, Cap: cap})
	if err != nil {
		return err
	}
	c.own("ibv_destroy_qp", "queue pair "+hex24(qp.QPN()), qp)
	c.events.made(pathSlow, "ibv_create_qp", "make queue pair", slog.String("qpn", hex24(qp.QPN())),
		slog.String("type", "RC"), slog.String("state", "RESET"), slog.String("cap", fmt.Sprintf("%+v", qp.Cap())))
	endpoint.Index = uint8(len(c.pairs))
	endpoint.QPType, endpoint.QPN, endpoint.PSN = oob.QPTypeRC, qp.QPN(), randomPSN()
	c.pairs = append(c.pairs, &queuePair{
		QP: qp, machine: qpstate.NewMachine(verbs.RC, qp, c.events.transition(qp)), local: endpoint,
	})
	return nil
}

// owns says whether a number is that of one of the queue pairs.
func (c *Conn) owns(qpn uint32) bool {
	for _, p := range c.pairs {
		if p.QPN() == qpn {
			return true
		}
	}
	return false
}

// The three moves carry this end's choices, and what the peer told.

func (c *Conn) toInit() error {
	for _, p := range c.pairs {
		if err := p.machine.ToInit(verbs.QPAttr{PKeyIndex: 0, PortNum: c.cfg.Port, Access: c.cfg.Access}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) toRTR() error {
	for _, p := range c.pairs {
		attr, err := c.rtrAttr(p)
		if err != nil {
			return err
		}
		if err := p.machine.ToRTR(attr); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) rtrAttr(p *queuePair) (verbs.QPAttr, error) {
	mtu, ok := qpstate.MTUFor(oob.NegotiateMTU(p.local.MTU, p.peer.MTU))
	if !ok {
		return verbs.QPAttr{}, errBadMTU(p.peer.MTU)
	}
	_, responder := oob.NegotiateReads(p.local, p.peer)
	return verbs.QPAttr{
		PathMTU: mtu,
		DestQPN: p.peer.QPN,
		RQPSN:   p.peer.PSN,
		AH: verbs.AHAttr{
			IsGlobal: c.ethernet || p.peer.LID == 0,
			DLID:     p.peer.LID,
			PortNum:  c.cfg.Port,
			GRH: verbs.GRH{
				DGID: p.peer.GID, SGIDIndex: uint8(c.gid.Index), HopLimit: defaultHopLimit,
			},
		},
		MaxDestRdAtomic: responder,
		MinRNRTimer:     c.cfg.Timing.MinRNRTimer,
	}, nil
}

func (c *Conn) toRTS() error {
	for _, p := range c.pairs {
		initiator, _ := oob.NegotiateReads(p.local, p.peer)
		if err := p.machine.ToRTS(verbs.QPAttr{
			SQPSN:       p.local.PSN,
			MaxRdAtomic: initiator,
			Timeout:     c.cfg.Timing.Timeout,
			RetryCnt:    c.cfg.Timing.RetryCnt,
			RNRRetry:    c.cfg.Timing.RNRRetry,
		}); err != nil {
			return err
		}
	}
	return nil
}
