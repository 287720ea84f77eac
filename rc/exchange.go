// What the two ends tell each other of their queue pairs, and when these move: the
// native way, and the place of any other.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// Exchange tells the peer of this end's queue pairs ([Conn.Locals]) and hears of
// the peer's, by raw bytes over [Conn.TCP]; Dial and Connect run it with the queue
// pairs in INIT and Config.Prepare done. It calls up, once, with the peer's
// endpoints, one for each queue pair, when the queue pairs are to go to RTR and
// RTS, and returns when both ends may send. No message of the native protocol is
// sent before or after: Barrier, SendNote and RecvNote are errors, Finish does
// nothing, Fail tells nobody, and that the peer is gone shows only in what it
// leaves undone.
type Exchange func(ctx context.Context, c *Conn, up func(peers []oob.Endpoint) error) error

// exchange tells the peer this end's endpoints and regions and hears its own.
func (c *Conn) exchange(ctx context.Context) error {
	peer, err := c.tcp.ExchangeEndpoints(ctx, c.Locals())
	if err != nil {
		return err
	}
	for i, p := range c.pairs {
		p.peer = peer[i]
		c.events.endpoints(p.local, p.peer)
	}
	if c.peerRegions, err = c.tcp.ExchangeRegions(ctx, c.regions); err != nil {
		return err
	}
	for _, r := range c.regions {
		c.events.region("local", r)
	}
	for _, r := range c.peerRegions {
		c.events.region("remote", r)
	}
	return nil
}

// exchangeOther runs Config.Exchange. What the peer said wrong is told with who it is.
func (c *Conn) exchangeOther(ctx context.Context) error {
	err := c.cfg.Exchange(ctx, c, c.up)
	if e := new(oob.ProtocolError); errors.As(err, &e) && e.Peer == "" {
		e.Peer = c.RemoteAddr().String()
	}
	return err
}

// Locals are this end's endpoints, as the peer is to know them.
func (c *Conn) Locals() []oob.Endpoint {
	list := make([]oob.Endpoint, len(c.pairs))
	for i, p := range c.pairs {
		list[i] = p.local
	}
	return list
}

// TCP is the connection that an [Exchange] speaks over.
func (c *Conn) TCP() *oob.Conn { return c.tcp }

// up takes what an Exchange has heard, and moves the queue pairs to RTS.
func (c *Conn) up(peers []oob.Endpoint) error {
	if len(peers) != len(c.pairs) {
		return errors.Errorf("this end has %d queue pairs and the peer %d; try: as many at both ends", len(c.pairs), len(peers))
	}
	for i, p := range c.pairs {
		p.peer = peers[i]
		if c.ethernet && p.peer.GID == (verbs.GID{}) {
			return errNoGID(i)
		}
		c.events.endpoints(p.local, p.peer)
	}
	if err := c.toRTR(); err != nil {
		return errors.WithMessage(err, "INIT→RTR")
	}
	return errors.WithMessage(c.toRTS(), "RTR→RTS")
}
