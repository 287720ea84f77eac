// The client's run: open, connect, do the job, say goodbye.

package run

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Client does one job with a server. It returns nil only if the job was done.
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
	session := o.session(o.Logger)
	session.Progress = o.Progress
	endpoint, err := o.sides[o.Job.Name].NewEndpoint(session)
	if err != nil {
		return err
	}
	if c, ok := endpoint.(io.Closer); ok {
		defer job.CloseAll(&err, c)
	}
	cfg := o.config(o.Logger)
	cfg.Params = job.Params{}
	cfg.Prepare = func(c *rc.Conn) error {
		if o.Native() {
			if err := job.CheckSize(cfg.Params, c.PeerHello().Params); err != nil {
				return err
			}
		}
		if err := rec.follow(c); err != nil {
			return err
		}
		return endpoint.Prepare(c)
	}
	endpoint.Configure(&cfg)
	dev, err := o.openDevice(&cfg)
	if err != nil {
		return err
	}
	packets, err := o.capture(dev, o.Logger)
	if err != nil {
		job.CloseAll(&err, dev)
		return err
	}
	defer func() {
		job.CloseAll(&err, packets, dev)
		if err == nil {
			event.RunDone.Log(o.Logger, "done: the job succeeded and everything is freed", slog.String("job", o.Job.Name))
		}
	}()
	ctx, stop := untilFatal(ctx, dev, func(verbs.AsyncEvent) {}) // the Conn logs those that concern it
	defer stop()
	rec.ask(&cfg)
	if o.Native() {
		cfg.Job, cfg.Program = o.Job.Name, o.Program
	} else {
		cfg.Params = nil // no hello carries them
	}
	conn, err := rc.Dial(ctx, net.JoinHostPort(o.Server, strconv.Itoa(o.TCPPort)), cfg)
	if err != nil {
		return inOurWords(o.Peer.Name, err)
	}
	rec.connected(ctx, conn)
	return job.Run(ctx, conn, endpoint, o.Timeout)
}
