// Package netconn is the jobs "net-echo" and "net-stream", whose ends have a net.Conn over the queue
// pair. Package rnet makes the net.Conn; docs/rnet-protocol.md explains the immediates.
package netconn

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/rnet"
)

// Jobs are the jobs, for the list in package run.
var Jobs = kit.List{{
	Name:   "net-echo",
	About:  "write a text to a net.Conn over the queue pair, read it back; round trips",
	Client: newEchoClient,
	Server: serverSide(echo{}),
}, {
	Name:   "net-stream",
	About:  "write much data to a net.Conn over the queue pair; compare checksums",
	Client: newStreamClient,
	Server: serverSide(sum{}),
}}

// end is the endpoint of either end.
type end struct {
	*rnet.Conn // nil before Prepare
	log        *slog.Logger
	ring       kit.Size // bytes of each of the two rings
	work
}

// work is what an end does with its Conn. It is no function, which the linker would keep in rawverbs: that
// lists the jobs and runs none.
type work interface {
	do(ctx context.Context, e *end) error
}

// newEnd returns an endpoint. It refuses a ring that rnet refuses.
func newEnd(s *kit.Session, ring kit.Size, w work) (kit.Endpoint, error) {
	if ring < 64<<10 || ring > 16<<20 || ring&(ring-1) != 0 {
		return nil, usage.Errorf("a ring of %v bytes is not possible; try: --ring 64K, 128K, … or 16M", ring)
	}
	return &end{log: s.Logger, ring: ring, work: w}, nil
}

// serverSide makes the side of a server whose rings have the size that the client asks for.
func serverSide(w work) func(*pflag.FlagSet) kit.Side {
	return func(*pflag.FlagSet) kit.Side {
		return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
			ring, err := s.AskedSize()
			if err != nil {
				return nil, err
			}
			return newEnd(&s, kit.Size(ring), w)
		})
	}
}

// Configure sets what the queue pair needs, and asks the server for rings of the same size.
func (e *end) Configure(cfg *rc.Config) {
	rnet.Configure(cfg)
	kit.Params(cfg.Params).AskSize(e.ring)
}

// Memory returns the bytes of both rings.
func (e *end) Memory() int64 { return 2 * int64(e.ring) }

// Prepare makes the Conn: its rings are registered, and receives without memory are posted.
func (e *end) Prepare(c *rc.Conn) (err error) {
	e.Conn, err = rnet.Attach(c, rnet.Config{Ring: int(e.ring)})
	return err
}

// Run starts the Conn and does the job. The end of ctx ends the Conn's reads and writes.
func (e *end) Run(ctx context.Context, _ *rc.Conn) error {
	if err := e.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = e.SetDeadline(time.Unix(1, 0)) })()
	return e.do(ctx, e)
}

// Close closes the Conn, if the connection came as far as Prepare.
func (e *end) Close() error {
	if e.Conn == nil {
		return nil
	}
	return e.Conn.Close()
}

// finish ends the writing and reads until the peer does the same. The job's barrier follows.
func (e *end) finish() error {
	if err := e.CloseWrite(); err != nil {
		return err
	}
	if err := e.Flush(); err != nil { // the barrier must not overtake what was written
		return err
	}
	left, err := io.Copy(io.Discard, e.Conn)
	if err == nil && left > 0 {
		err = errors.Errorf("the peer sent %d bytes more than it should; try: a peer of this program's version", left)
	}
	return err
}

// done logs that the job is done, with the bytes of both directions, and the messages and reports that the job counts.
func (e *end) done(text string, messages, reports uint64, more ...slog.Attr) {
	s := e.Stats()
	event.NetDone.Log(e.log, text, append([]slog.Attr{slog.Uint64("written", s.BytesWritten), slog.Uint64("read", s.BytesRead),
		slog.Uint64("messages", messages), slog.Uint64("reports", reports)}, more...)...)
}
