// The exchange of a pingpong over TCP. The client sends its queue pairs. The server
// moves its own to RTS and sends them. The client sends "done", and then moves its queue
// pairs to RTS too. The client sends the first message: the server has posted its
// receives long before.

package pingpong

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/peer"
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
func (e *endpoint) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	if e.client {
		if err := e.say(ctx, c); err != nil {
			return err
		}
		peers, err := e.hear(ctx, c)
		if err != nil {
			return err
		}
		if err := e.tcp(c).Send(ctx, stepDone, []byte(doneWord)); err != nil {
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
	word, err := e.tcp(c).Receive(ctx, stepDone, len(doneWord))
	if err != nil {
		return err
	}
	return checkDone(word)
}

func (e *endpoint) tcp(c *rc.Conn) peer.TCP { return peer.NewTCP(e.Logger, c.TCP()) }

// say sends this end's queue pairs.
func (e *endpoint) say(ctx context.Context, c *rc.Conn) error {
	var lines []byte
	var err error
	if e.srq {
		lines, err = appendSRQLines(nil, c.LocalEndpoints())
	} else {
		lines, err = appendLine(nil, c.LocalEndpoints()[0])
	}
	if err != nil {
		return err
	}
	return e.tcp(c).Send(ctx, stepMyLines, lines)
}

// hear reads the peer's queue pairs, and fills in what the programs do not exchange.
func (e *endpoint) hear(ctx context.Context, c *rc.Conn) ([]oob.Endpoint, error) {
	peers, err := e.read(ctx, c)
	if err != nil {
		return nil, err
	}
	locals := c.LocalEndpoints()
	if len(peers) != len(locals) {
		return nil, errors.Errorf("the peer has %d queue pairs, but this end has %d; try: --qps %d here, or -q %d there", len(peers), len(locals), len(peers), len(locals))
	}
	for i, received := range peers {
		peers[i] = peer.Complete(locals[i], received)
	}
	return peers, nil
}

func (e *endpoint) read(ctx context.Context, c *rc.Conn) ([]oob.Endpoint, error) {
	size := lineSize
	if e.srq {
		size *= srqLines
	}
	lines := make([]byte, size)
	start := lines[:startSize]
	if _, err := c.TCP().ReadFull(ctx, stepPeersLines, start); err != nil {
		return nil, e.silent(err)
	}
	if checkStart(start) != nil {
		return nil, checkStart(readOn(ctx, c, start))
	}
	n, err := c.TCP().ReadFull(ctx, stepPeersLines, lines[len(start):])
	switch came := len(start) + n; {
	case err != nil && e.srq && came == lineSize:
		_, err := decodeSRQLines(lines[:came]) // one line, and no more: not the srq program's
		return nil, err
	case err != nil:
		return nil, err
	}
	e.tcp(c).Log(false, stepPeersLines, size)
	if e.srq {
		return decodeSRQLines(lines)
	}
	one, err := decodeLine(lines)
	return []oob.Endpoint{one}, err
}

// silent adds to a timeout that another kind of pingpong would send more.
func (e *endpoint) silent(err error) error {
	if e.client && !e.srq && errors.As(err, new(*oob.TimeoutError)) {
		return fmt.Errorf("%w; ibv_srq_pingpong would wait for more lines: for it, try --job srq-pingpong", err)
	}
	return err
}

// readOn reads for a moment what follows the first bytes of another kind of peer, so that the
// error can quote it.
func readOn(ctx context.Context, c *rc.Conn, first []byte) []byte {
	const room, moment = 128, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	all := append(make([]byte, 0, room), first...)
	n, _ := c.TCP().ReadFull(ctx, stepPeersLines, all[len(all):room])
	return all[:len(all)+n]
}
