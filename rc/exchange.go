// The exchange of endpoints over TCP, native or by Config.Exchange.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// Exchange exchanges endpoints over [Conn.TCP] in another protocol than the native one. Dial and
// Connect run it in INIT, after Config.Prepare. It sends LocalEndpoints, receives the peer's,
// and calls up once to move the queue pairs to RTR and RTS. Such a Conn has no notes and
// barriers, Finish does nothing, and only missing answers show that the peer is gone.
type Exchange func(ctx context.Context, c *Conn, up func(peers []oob.Endpoint) error) error

// exchange exchanges endpoints and regions in the native protocol.
func (c *Conn) exchange(ctx context.Context) error {
	peer, err := c.tcp.ExchangeEndpoints(ctx, c.LocalEndpoints())
	if err != nil {
		return err
	}
	for i, p := range c.pairs {
		p.peer = peer[i]
		c.events.endpoints(p.local, p.peer)
	}
	if err := c.checkPeerGIDs(); err != nil {
		return err
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

// exchangeOther runs Config.Exchange. It adds the peer's address to a protocol error.
func (c *Conn) exchangeOther(ctx context.Context) error {
	err := c.cfg.Exchange(ctx, c, func(peers []oob.Endpoint) error { return c.up(ctx, peers) })
	if e := new(oob.ProtocolError); errors.As(err, &e) && e.Peer == "" {
		e.Peer = c.tcp.RemoteAddr().String()
	}
	return err
}

// up takes the peer's endpoints from an Exchange, and moves the queue pairs to RTS.
func (c *Conn) up(ctx context.Context, peers []oob.Endpoint) error {
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
	if err := c.checkPeerGIDs(); err != nil {
		return err
	}
	if err := c.toRTR(ctx); err != nil {
		return errors.WithMessage(err, "INIT→RTR")
	}
	return errors.WithMessage(c.toRTS(ctx), "RTR→RTS")
}
