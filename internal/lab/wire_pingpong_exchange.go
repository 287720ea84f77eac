// What a pingpong's ends tell each other over TCP, and in which order: the client
// its queue pairs; the server its own, once these are in RTS; the client "done", and
// then its queue pairs go to RTS as well. It sends first: the server's receives have
// been posted long before.

package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// The steps, as errors name them.
const (
	stepMyLines    = "this end's queue pairs"
	stepPeersLines = "the peer's queue pairs"
	stepDone       = `"done"`
)

// exchange is the connection's rc.Exchange.
func (e *pingpongEnd) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	if e.client {
		if err := e.say(ctx, c); err != nil {
			return err
		}
		peers, err := e.hear(ctx, c)
		if err != nil {
			return err
		}
		if err := e.raw(c).send(ctx, stepDone, []byte(oob.PingpongDone)); err != nil {
			return err
		}
		return up(peers)
	}
	peers, err := e.hear(ctx, c)
	if err != nil {
		return err
	}
	if err := up(peers); err != nil {
		return err
	}
	if err := e.say(ctx, c); err != nil {
		return err
	}
	word, err := e.raw(c).receive(ctx, stepDone, len(oob.PingpongDone))
	if err != nil {
		return err
	}
	return oob.CheckPingpongDone(word)
}

// say tells of this end's queue pairs.
func (e *pingpongEnd) say(ctx context.Context, c *rc.Conn) error {
	var lines []byte
	var err error
	if e.srq {
		lines, err = oob.AppendPingpongSRQ(nil, c.Locals())
	} else {
		lines, err = oob.AppendPingpong(nil, c.Local())
	}
	if err != nil {
		return err
	}
	return e.raw(c).send(ctx, stepMyLines, lines)
}

// hear reads of the peer's queue pairs. What is not told is as it is here.
func (e *pingpongEnd) hear(ctx context.Context, c *rc.Conn) ([]oob.Endpoint, error) {
	peers, err := e.read(ctx, c)
	if err != nil {
		return nil, err
	}
	locals := c.Locals()
	if len(peers) != len(locals) {
		return nil, fmt.Errorf("the peer has %d queue pairs and this end %d; try: --qps %d here, or -q %d there", len(peers), len(locals), len(peers), len(locals))
	}
	for i, told := range peers {
		peers[i] = asHere(locals[i], told)
	}
	return peers, nil
}

func (e *pingpongEnd) read(ctx context.Context, c *rc.Conn) ([]oob.Endpoint, error) {
	size := oob.PingpongLineSize
	if e.srq {
		size *= oob.PingpongSRQLines
	}
	lines := make([]byte, size)
	start := lines[:oob.PingpongStartSize]
	if _, err := c.TCP().ReadFull(ctx, stepPeersLines, start); err != nil {
		return nil, e.silent(err)
	}
	if oob.CheckPingpongStart(start) != nil {
		return nil, oob.CheckPingpongStart(readOn(ctx, c, start))
	}
	n, err := c.TCP().ReadFull(ctx, stepPeersLines, lines[len(start):])
	switch came := len(start) + n; {
	case err != nil && e.srq && came == oob.PingpongLineSize:
		_, err := oob.DecodePingpongSRQ(lines[:came]) // one line, and no more: not the srq program's
		return nil, err
	case err != nil:
		return nil, err
	}
	e.raw(c).told(false, stepPeersLines, size)
	if e.srq {
		return oob.DecodePingpongSRQ(lines)
	}
	peer, err := oob.DecodePingpong(lines)
	return []oob.Endpoint{peer}, err
}

// silent adds to a timeout what a pingpong of another kind would wait for.
func (e *pingpongEnd) silent(err error) error {
	if e.client && !e.srq && errors.As(err, new(*oob.TimeoutError)) {
		return fmt.Errorf("%w; ibv_srq_pingpong would wait for more lines: for it, try --job srq-pingpong", err)
	}
	return err
}

// readOn reads for a moment what follows the first bytes of a peer that is none, to
// quote it.
func readOn(ctx context.Context, c *rc.Conn, first []byte) []byte {
	const room, moment = 128, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	all := append(make([]byte, 0, room), first...)
	n, _ := c.TCP().ReadFull(ctx, stepPeersLines, all[len(all):room])
	return all[:len(all)+n]
}
