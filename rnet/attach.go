// Conns over queue pairs that the program connects with package rc itself.

package rnet

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Configure sets what a queue pair needs to carry a Conn: queue sizes, access and timers.
func Configure(cfg *rc.Config) {
	cfg.OneCQ, cfg.Access, cfg.Timing = true, cfg.Access|verbs.AccessRemoteWrite, timing()
	cfg.Cap = verbs.QPCap{MaxSendWR: sends, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1}
}

// Attach makes a Conn over a queue pair that the program connects with package rc, in a job of its
// own. Call it in rc.Config.Prepare at both ends, with the same Config.Ring; the rc.Config must be
// one of Configure. The Conn can be used after Start. Its Close also closes r. A program that calls
// Finish of r instead calls CloseWrite and Flush, and reads to the end, before.
func Attach(r *rc.Conn, cfg Config) (*Conn, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c, err := newConn(r, cfg, terms{uint64(cfg.Ring), receives})
	if err == nil {
		c.free = func() {}
	}
	return c, err
}

// Start begins the life of a Conn of Attach. Call it when both ends are in RTS, after rc.Dial or
// Incoming.Connect has returned.
func (c *Conn) Start() error {
	peer, ok := c.rc.PeerRegion(ringName)
	if !ok || peer.Length != c.flow.ring {
		return errors.Errorf("rnet: the peer shares a ring of %d bytes, and this end one of %d; try: the same Ring at both ends", peer.Length, c.flow.ring)
	}
	c.peer = peer
	// Only now, because a peer that is not connected yet is to cost as little as possible.
	var err error
	if c.staging, err = c.rc.AllocMR("staging", int(c.flow.ring), verbs.AccessLocalWrite); err != nil {
		return err
	}
	c.open()
	return nil
}
