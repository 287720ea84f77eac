// The client's run: open, connect, do the job, say goodbye.

package lab

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// RunClient does one job with a server. It returns nil only if the job was done.
func RunClient(ctx context.Context, o ClientOptions) (err error) {
	rec, err := o.record()
	if err != nil {
		return err
	}
	o.Logger = o.Logger.With(slog.String("who", "client"))
	defer func() { rec.write(&err, o.Logger) }()
	w, err := findWire(o.Wire)
	if err != nil {
		return err
	}
	j, err := w.find(o.Job)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	mine, err := j.client(o)
	if err != nil {
		return err
	}
	if c, ok := mine.(io.Closer); ok { // it has opened a file
		defer closeAll(&err, c)
	}
	cfg := o.config(o.Logger)
	cfg.Job, cfg.Params = j.name, params{}
	cfg.Prepare = func(c *rc.Conn) error {
		if w.isNative() {
			if err := askable(cfg.Params, c.PeerHello().Params); err != nil {
				return err
			}
		}
		return mine.prepare(c)
	}
	mine.configure(&cfg)
	dev, err := o.openDevice(&cfg)
	if err != nil {
		return err
	}
	packets, err := o.capture(dev, o.Logger)
	if err != nil {
		closeAll(&err, dev)
		return err
	}
	defer func() {
		closeAll(&err, packets, dev)
		if err == nil {
			tell(o.Logger, "slow", "run.done", "", "done: the job succeeded and everything is freed", slog.String("job", j.name))
		}
	}()
	ctx, stop := untilFatal(ctx, dev, func(verbs.AsyncEvent) {}) // the Conn tells of those that concern it
	defer stop()
	rec.ask(&cfg)
	conn, err := rc.Dial(ctx, net.JoinHostPort(o.Server, strconv.Itoa(o.TCPPort)), cfg)
	if err != nil {
		return inOurWords(w, err)
	}
	rec.connected(ctx, conn)
	return runJob(ctx, conn, mine, o.Timeout)
}

// runJob does one half of a job on a connection, which it closes; a failure is
// told to the peer. The job may stand still for limit.
func runJob(ctx context.Context, conn *rc.Conn, mine half, limit time.Duration) (err error) {
	defer closeAll(&err, conn)
	ctx, cancel := untilStalled(ctx, limit)
	defer cancel()
	if err := mine.run(ctx, conn); err != nil {
		err = conn.Because(ctx, err)
		conn.Fail("job", err)
		return err
	}
	progress(ctx)
	return conn.Finish(ctx)
}
