// The choices of a program, and their defaults.

package rnet

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Config holds the choices for Conns. The zero value works. It can serve any number of Conns.
type Config struct {
	Device   *verbs.Device // must stay open until StateClosed of all its Conns; nil: the first device, opened once for all Conns that need it
	Port     uint8         // port of the device; 0 is 1
	GIDIndex *int          // slot of the port's GID table; nil: verbs.ChooseGID chooses

	PeerNetworks []netip.Prefix // the networks from which the peer's GID may be: see rc.Config

	Ring      int           // bytes of each of the two rings of a Conn: a power of two from 64 KiB to 16 MiB; 0 is 2 MiB. The smaller of both ends' counts
	Linger    time.Duration // how long Close goes on sending; 0 is 5 s, less than 0 drops what is not sent: see Conn.SetLinger
	KeepAlive time.Duration // time without traffic before a probe; 0 is 15 s, less than 0 sends none
	Spin      time.Duration // how long a wait polls, using a whole CPU, before it sleeps: see rc.Config
	Timeout   time.Duration // limit of each message while connecting; 0 is oob.DefaultTimeout, less than 0 no limit. A listener gives a peer 10 s at most

	TLSConfig *tls.Config            // of the exchange over TCP; nil: the exchange is plain. The data is not encrypted
	ConnState func(*Conn, ConnState) // called when a Conn has opened or closed, for metrics: see Conn.Stats; may be nil
	Logger    *slog.Logger           // gets failures of connecting, fallbacks, and all events of package rc, most at Debug; nil discards them
}

const (
	defaultLinger    = 5 * time.Second
	defaultKeepAlive = 15 * time.Second
)

// complete returns c with defaults for the fields that are 0.
func (c Config) complete() (Config, error) {
	c.Ring, c.KeepAlive = cmp.Or(c.Ring, defaultRing), cmp.Or(c.KeepAlive, defaultKeepAlive)
	if c.Spin < 0 {
		return c, errors.Errorf("rnet: Config.Spin is %v; try: 0 or more", c.Spin)
	}
	c.Linger = max(cmp.Or(c.Linger, defaultLinger), 0)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if !isPowerOfTwo(c.Ring) || c.Ring < minRing || c.Ring > maxRing {
		return c, errors.Errorf("rnet: Config.Ring is %d; try: a power of two from %d to %d", c.Ring, minRing, maxRing)
	}
	return c, nil
}

// timing waits longer for an ACK than rc's default, because a Conn has to survive a busy host:
// 8 times 0.27 s. A peer whose process has ended is noticed at once, by TCP.
func timing() *rc.Timing {
	t := rc.DefaultTiming()
	t.Timeout = 16
	return &t
}

// connect makes a Conn over the queue pair that by connects. The Conn is made in Prepare. It owns the device's free; after
// an error connect calls it.
func (c Config) connect(dev *verbs.Device, free func(), by func(rc.Config) (*rc.Conn, error)) (*Conn, error) {
	var n *Conn
	cfg := rc.Config{
		Device: dev, Port: c.Port, GIDIndex: c.GIDIndex, PeerNetworks: c.PeerNetworks, Timeout: c.Timeout, Spin: c.Spin, Logger: c.Logger,
		Prepare: func(r *rc.Conn) error {
			t, err := agree(c.Ring, r.PeerHello())
			if err == nil {
				n, err = newConn(r, c, t)
			}
			return err
		},
	}
	Configure(&cfg)
	r, err := by(cfg)
	if err != nil {
		free()
		return nil, err
	}
	n.free = free
	if err := n.Start(); err != nil {
		r.TCP().Fail("exchange regions", err)
		_ = r.Close()
		free()
		return nil, err
	}
	return n, nil
}
