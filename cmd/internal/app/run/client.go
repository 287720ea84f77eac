// The client's run: open, connect, do the job, say goodbye.

package run

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Client does one job with a server, with Retry again if a connection is lost. It returns nil only if
// the job was done.
func Client(ctx context.Context, o ClientOptions) (err error) {
	rec, err := o.record()
	if err != nil {
		return err
	}
	o.Logger = o.Logger.With(slog.String("who", "client"))
	defer func() { rec.write(&err, o.Logger) }()
	if err := o.check(); err != nil {
		return err
	}
	c := &client{ClientOptions: o, rec: rec}
	defer c.close(&err)
	return retry(ctx, o.Retry, o.Logger, c.attempt)
}

// client is a client's run.
type client struct {
	ClientOptions
	rec     *recording
	dev     *verbs.Device // nil until the first attempt opens it; then it stays open
	packets io.Closer     // nil until dev is open
}

// close closes what the attempts left open. *err is the result of the run.
func (c *client) close(err *error) {
	if c.packets != nil {
		kit.CloseAll(err, c.packets)
	}
	if c.dev != nil {
		kit.CloseAll(err, c.dev)
	}
	if *err == nil {
		event.RunDone.Log(c.Logger, "done: the job succeeded and everything is freed", slog.String("job", c.Job.Name))
	}
}

// attempt does the job over one connection.
func (c *client) attempt(ctx context.Context) (err error) {
	session := c.session(c.Logger)
	session.Progress, session.Again = c.Progress, c.Retry > 0
	endpoint, err := c.sides[c.Job.Name].NewEndpoint(session)
	if err != nil {
		return err
	}
	if closer, ok := endpoint.(io.Closer); ok {
		defer kit.CloseAll(&err, closer)
	}
	cfg := c.config(c.Logger)
	cfg.Params = kit.Params{}
	cfg.Prepare = func(conn *rc.Conn) error {
		if c.Native() {
			if err := kit.CheckSize(cfg.Params, conn.PeerHello().Params); err != nil {
				return err
			}
		}
		return endpoint.Prepare(conn)
	}
	endpoint.Configure(&cfg)
	if cfg.TLS, err = c.loadTLS(); err != nil {
		return err
	}
	if err := c.open(&cfg); err != nil {
		return err
	}
	ctx, stop := untilFatal(ctx, c.dev, func(verbs.AsyncEvent) {}) // the Conn logs those that concern it
	defer stop()
	c.rec.ask(&cfg)
	if c.Native() {
		cfg.Job, cfg.Program = c.Job.Name, c.Program
	} else {
		cfg.Params = nil // no hello carries them
	}
	conn, err := rc.Dial(ctx, net.JoinHostPort(c.Server, strconv.Itoa(c.TCPPort)), cfg)
	if err != nil {
		return inOurWords(c.Peer.Name, err)
	}
	c.rec.connected(ctx, conn)
	return kit.Run(ctx, conn, endpoint, c.Timeout, c.Logger)
}

// open sets the device of cfg. The first attempt opens it.
func (c *client) open(cfg *rc.Config) (err error) {
	if c.dev != nil {
		cfg.Device = c.dev
		return nil
	}
	if c.dev, err = c.openDevice(cfg, verbs.OpenOptions{}); err != nil {
		return err
	}
	c.packets, err = c.capture(c.dev, c.Logger, c.rec.packetsOf(c.dev))
	return err
}
