// The job "bulk" by WRITE or SEND: the client pushes, the server takes.

package bulk

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// pusher is the client's endpoint.
type pusher struct {
	*endpoint
}

func (e *pusher) Prepare(c *rc.Conn) error { return e.prepareClient(c, "to send from", 0) }

func (e *pusher) Run(ctx context.Context, c *rc.Conn) error {
	var remote oob.Region
	if e.op == opWrite {
		var err error
		if remote, err = kit.PeerRegion(c, int(e.window())); err != nil {
			return err
		}
	}
	return e.measured(ctx, c, func(ctx context.Context) error { return e.push(ctx, remote) })
}

// push makes and posts each chunk as soon as its slot is free at both ends. Here the slot is
// free when the queue pair has room. At the server the slot is free when the server has given
// the credit.
func (e *pusher) push(ctx context.Context, remote oob.Region) error {
	for next := int64(0); next < e.Chunks() || e.expected > 0; {
		for ; next < e.Chunks() && next < e.granted+int64(e.slots()) && e.room(next); next++ {
			e.data.fill(next, e.at(next))
			wr := verbs.SendWR{Opcode: verbs.OpSend}
			if e.op == opWrite {
				wr = verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: uint32(next), RemoteAddr: remote.Addr + uint64(e.slot(next)*e.Chunk), RKey: remote.RKey}
			}
			if err := e.post(next, wr); err != nil {
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
	}
	return nil
}

// taker is the server's endpoint.
type taker struct {
	*endpoint
	arrived []bool // chunks that are not yet checked, by slot
	lengths []int  // of these chunks
}

func (e *taker) Configure(cfg *rc.Config) {
	e.endpoint.Configure(cfg)
	if e.op == opWrite {
		cfg.Access = verbs.AccessRemoteWrite
	}
}

func (e *taker) Prepare(c *rc.Conn) error {
	access := verbs.AccessLocalWrite
	if e.op == opWrite {
		access |= verbs.AccessRemoteWrite
	}
	if err := e.allocate(c, "for the client", access); err != nil {
		return err
	}
	if e.op == opWrite {
		c.Share(kit.RegionName, e.region)
	}
	e.arrived, e.lengths = make([]bool, e.slots()), make([]int, e.slots())
	for s := range e.slots() {
		e.receive(int64(s))
		if err := e.flushRecvs(e.qp(int64(s))); err != nil {
			return err
		}
	}
	event.RecvPosted.Log(e.Logger, "post a RECV for each slot", slog.Int("count", e.slots()))
	return nil
}

// receive makes the receive for a chunk. For a SEND it has the memory of the slot. For a
// WRITE_WITH_IMM it has no memory, because the WRITE itself names the slot.
func (e *taker) receive(i int64) {
	q, s := e.qp(i), e.slot(i)
	wr := verbs.RecvWR{ID: uint64(s)}
	if e.op == opSend {
		wr.SGL = e.sges[s : s+1]
	}
	e.recvs[q] = append(e.recvs[q], wr)
}

func (e *taker) Run(ctx context.Context, c *rc.Conn) error {
	return e.measured(ctx, c, e.take)
}

// take checks the chunks in order, although queue pairs may deliver them out of order. It posts
// their receives again, and then gives the client credits.
func (e *taker) take(ctx context.Context) error {
	for taken := int64(0); taken < e.Chunks(); {
		e.meter.waits(forData)
		n, err := e.conn.WaitRecvs(ctx, e.wcs[:])
		if err == nil {
			err = kit.FirstFailure(e.wcs[:n])
		}
		if err != nil {
			return errors.WithMessage(e.Cause(e.conn, err), "waiting for the client's data")
		}
		kit.Progress(ctx)
		var bytes int64
		for k := range e.wcs[:n] {
			if err := e.arrive(taken, &e.wcs[k]); err != nil {
				return err
			}
			bytes += int64(e.wcs[k].ByteLen)
		}
		e.meter.add(bytes, n)
		kit.Moved(ctx, bytes)
		for ; taken < e.Chunks() && e.arrived[e.slot(taken)]; taken++ {
			s := e.slot(taken)
			if e.lengths[s] != e.Length(taken) {
				return errors.Errorf("chunk %d arrived with %d bytes, expected %d; try: a client of this program's version", taken, e.lengths[s], e.Length(taken))
			}
			if err := e.data.check(taken, e.at(taken)); err != nil {
				return err
			}
			e.arrived[s] = false
			if taken+int64(e.slots()) < e.Chunks() { // the slot is used again
				e.receive(taken)
			}
		}
		for q := range e.pairs {
			if err := e.flushRecvs(q); err != nil {
				return err
			}
		}
		if e.given+int64(e.slots()) < e.Chunks() { // otherwise the client needs no more credits
			if err := e.give(ctx, taken, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrive notes a chunk that has arrived. taken is the number of chunks that are already
// checked.
func (e *taker) arrive(taken int64, wc *verbs.WC) error {
	s, fits := int(wc.ID), wc.Opcode == verbs.WCRecv
	if e.op == opWrite {
		i := taken + int64(wc.Imm()-uint32(taken))
		fits = wc.Opcode == verbs.WCRecvRDMAWithImm && i < e.Chunks() && i < taken+int64(e.slots()) && e.pairs[e.qp(i)].QPN() == wc.QPN
		s = e.slot(i)
	}
	if !fits || e.arrived[s] {
		return errors.Errorf("%v with the immediate %d arrived for an unexpected chunk, after %d of %d; try: a client of this program's version", wc.Opcode, wc.Imm(), taken, e.Chunks())
	}
	if taken == 0 && s == 0 {
		e.Tracer.LogCompletion(wc) // the first one is logged
	}
	e.arrived[s], e.lengths[s] = true, int(wc.ByteLen)
	return nil
}
