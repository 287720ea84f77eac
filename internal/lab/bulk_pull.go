// The job "bulk" by READ: the server offers, the client pulls.

package lab

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// bulkPuller is the client's half.
type bulkPuller struct {
	*bulkEnd
}

func (e *bulkPuller) prepare(c *rc.Conn) error {
	return e.prepareClient(c, "to read into", verbs.AccessLocalWrite)
}

func (e *bulkPuller) run(ctx context.Context, c *rc.Conn) error {
	return e.measured(ctx, c, e.pull)
}

// pull READs each chunk that the server has made, checks those that are here in
// their order, and tells the server, which makes new ones in their slots.
func (e *bulkPuller) pull(ctx context.Context) error {
	remote, err := peerRegion(e.conn, int(e.window()))
	if err != nil {
		return err
	}
	for next, taken := int64(0), int64(0); taken < e.chunks(); {
		for ; next < e.granted && next < taken+int64(e.slots()) && e.room(next); next++ {
			err := e.post(next, verbs.SendWR{Opcode: verbs.OpRDMARead, RemoteAddr: remote.Addr + uint64(e.slot(next)*e.chunk), RKey: remote.RKey})
			if err != nil {
				return errors.WithMessagef(err, "posting chunk %d", next)
			}
		}
		if err := e.flush(); err != nil {
			return errors.WithMessagef(err, "posting the chunks before %d", next)
		}
		if err := e.await(ctx); err != nil {
			return err
		}
		if err := e.pollCredits(); err != nil {
			return err
		}
		for ; taken < next && e.turn(taken) < e.completed[e.qp(taken)]; taken++ {
			if err := e.data.check(taken, e.at(taken)); err != nil {
				return err
			}
		}
		if err := e.give(ctx, taken, taken == e.chunks()); err != nil {
			return err
		}
	}
	return nil
}

// bulkOfferer is the server's half.
type bulkOfferer struct {
	*bulkEnd
}

func (e *bulkOfferer) prepare(c *rc.Conn) error {
	if err := e.allocate(c, "for the client", verbs.AccessRemoteRead); err != nil {
		return err
	}
	c.Share(regionName, e.region)
	return e.receiveCredits()
}

func (e *bulkOfferer) run(ctx context.Context, c *rc.Conn) error {
	return e.measured(ctx, c, e.offer)
}

// offer makes chunks in the slots that the client has done with, until it has done
// with all: of its READs no completion tells here.
func (e *bulkOfferer) offer(ctx context.Context) error {
	for made := int64(0); e.granted < e.chunks(); {
		for ; made < e.chunks() && made < e.granted+int64(e.slots()); made++ {
			e.data.fill(made, e.at(made))
			e.meter.add(int64(e.length(made)), 0)
			if err := e.give(ctx, made+1, made+1 == e.chunks()); err != nil {
				return err
			}
		}
		if err := e.awaitCredits(ctx); err != nil {
			return err
		}
	}
	return nil
}
