// The exchange of endpoints over TCP: the native protocol, and Config.Exchange for others.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// Exchange sends this end's endpoints ([Conn.LocalEndpoints]) to the peer and receives the
// peer's, as raw bytes over [Conn.TCP]. Dial and Connect run it when the queue pairs are in
// INIT and Config.Prepare is done. Exchange calls up once, with one endpoint of the peer
// per queue pair, to move the queue pairs to RTR and RTS. It returns when both ends may
// send. The native protocol is not used before or after: Barrier, SendNote and RecvNote
// return errors, Finish does nothing, Fail sends nothing, and only missing answers show
// that the peer is gone.
type Exchange func(ctx context.Context, c *Conn, up func(peers []oob.Endpoint) error) error

// exchange sends this end's endpoints and regions, and receives the peer's.
func (c *Conn) exchange(ctx context.Context) error {
	peer, err := c.tcp.ExchangeEndpoints(ctx, c.LocalEndpoints())
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

// exchangeOther runs Config.Exchange, and puts the peer's address into a protocol error.
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
	if err := c.toRTR(ctx); err != nil {
		return errors.WithMessage(err, "INIT→RTR")
	}
	return errors.WithMessage(c.toRTS(ctx), "RTR→RTS")
}
