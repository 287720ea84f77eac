// The job "bulk" by READ: the server offers, the client pulls.

package bulk

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// puller is the client's endpoint.
type puller struct {
	*endpoint
}

func (e *puller) Prepare(c *rc.Conn) error {
	return e.prepareClient(c, "to read into", verbs.AccessLocalWrite)
}

func (e *puller) Run(ctx context.Context, c *rc.Conn) error {
	return e.measured(ctx, c, e.pull)
}

// pull READs each chunk that the server has made and checks the chunks in order. It gives the
// server credits, and the server then makes new chunks in the slots.
func (e *puller) pull(ctx context.Context) error {
	remote, err := kit.PeerRegion(e.conn, int(e.window()))
	if err != nil {
		return err
	}
	for next, taken := int64(0), int64(0); taken < e.Chunks(); {
		for ; next < e.granted && next < taken+int64(e.slots()) && e.room(next); next++ {
			err := e.post(next, verbs.SendWR{Opcode: verbs.OpRDMARead, RemoteAddr: remote.Addr + uint64(e.slot(next)*e.Chunk), RKey: remote.RKey})
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
		if err := e.pollCredits(ctx); err != nil {
			return err
		}
		for ; taken < next && e.turn(taken) < e.completed[e.qp(taken)]; taken++ {
			if err := e.data.check(taken, e.at(taken)); err != nil {
				return err
			}
		}
		if err := e.give(ctx, taken, taken == e.Chunks()); err != nil {
			return err
		}
	}
	return nil
}

// offerer is the server's endpoint.
type offerer struct {
	*endpoint
}

func (e *offerer) Configure(cfg *rc.Config) {
	e.endpoint.Configure(cfg)
	cfg.Access = verbs.AccessRemoteRead
}

func (e *offerer) Prepare(c *rc.Conn) error {
	if err := e.allocate(c, "for the client", verbs.AccessRemoteRead); err != nil {
		return err
	}
	c.Share(kit.RegionName, e.region)
	return e.receiveCredits()
}

func (e *offerer) Run(ctx context.Context, c *rc.Conn) error {
	return e.measured(ctx, c, e.offer)
}

// offer makes chunks in the slots that the client no longer needs, until the client has
// checked all chunks. The client's READs complete nothing at this end.
func (e *offerer) offer(ctx context.Context) error {
	for made := int64(0); e.granted < e.Chunks(); {
		for ; made < e.Chunks() && made < e.granted+int64(e.slots()); made++ {
			e.data.fill(made, e.at(made))
			e.meter.add(int64(e.Length(made)), 0)
			kit.Moved(ctx, int64(e.Length(made)))
			if err := e.give(ctx, made+1, made+1 == e.Chunks()); err != nil {
				return err
			}
		}
		if err := e.awaitCredits(ctx); err != nil {
			return err
		}
	}
	return nil
}
