// A worker: it has data, READs the weights and WRITEs the gradient.

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// work computes gradients for the server at address until the training is over.
func work(ctx context.Context, dev *verbs.Device, s settings, address string, out io.Writer) error {
	var mr *verbs.MR // a copy of this worker's region at the server
	conn, err := rc.Dial(ctx, address, rc.Config{Device: dev, Job: job, Timeout: s.timeout, Prepare: func(c *rc.Conn) (err error) {
		// The READ needs LOCAL_WRITE, because this end's device writes the data.
		if mr, err = c.AllocMR(regionName, regionSize, verbs.AccessLocalWrite); err != nil {
			return err
		}
		return c.QP().PostRecv([]verbs.RecvWR{{}}) // for the first round's announcement
	}})
	if err != nil {
		return err
	}
	defer conn.Close()
	remote, ok := conn.PeerRegion(regionName)
	if !ok || remote.Length != regionSize {
		return fmt.Errorf("the server shares %d bytes as %q, and %d are needed; try: a server of this program's version", remote.Length, regionName, regionSize)
	}
	local := region(mr.Bytes())
	var mine *data
	for rounds := 0; ; rounds++ {
		// This wait has no time limit, because the server may wait for other workers. It ends
		// when the server ends, because rc watches the TCP connection.
		wc, err := conn.WaitRecv(ctx)
		if err != nil {
			return fmt.Errorf("waiting for round %d: %w", rounds+1, err)
		}
		round := wc.Imm()
		if round == finished {
			fmt.Fprintf(out, "worker %d is done, after %d rounds\n", local.number(atNumber), rounds)
			return conn.Finish(ctx)
		}
		// For the next announcement, which comes only after this round's gradient.
		if err := conn.QP().PostRecv([]verbs.RecvWR{{}}); err != nil {
			return err
		}
		err = transfer(ctx, conn, verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{mr.SGE(0, atGradient)},
			RemoteAddr: remote.Addr, RKey: remote.RKey})
		if err != nil {
			return fmt.Errorf("reading the weights of round %d: %w", round, err)
		}
		if mine == nil { // the first READ brought the worker's number
			mine = newData(local.number(atSeed), int(local.number(atNumber)))
			fmt.Fprintf(out, "worker %d of the server %s\n", local.number(atNumber), address)
		}
		at := local.vector(atWeights)
		gradient, loss := mine.gradient(&at)
		local.setVector(atGradient, &gradient)
		local.setFloat(atLoss, loss)
		err = transfer(ctx, conn, verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: round, SGL: []verbs.SGE{mr.SGE(atGradient, regionSize-atGradient)},
			RemoteAddr: remote.Addr + atGradient, RKey: remote.RKey})
		if err != nil {
			return fmt.Errorf("writing the gradient of round %d: %w", round, err)
		}
	}
}

// transfer does one READ or WRITE and returns when the data has arrived.
func transfer(ctx context.Context, conn *rc.Conn, wr verbs.SendWR) error {
	wr.Flags = verbs.SendSignaled
	if err := conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	_, err := conn.WaitSend(ctx)
	return err
}
