// Package netecho is the job "net-echo": a program for sockets, unchanged, on a queue pair. The
// client writes a text to a net.Conn and reads it back; the server copies what it reads. Package
// rnet makes the net.Conn.
//
//	client                                         server
//	  Write: copy to the staging ring,
//	  WRITE_WITH_IMM 21 bytes, imm 21   ────────▶   in the ring; Read copies it out
//	  Read copies it out                ◀────────   Write: WRITE_WITH_IMM 21 bytes, imm 21
//	  …
//	  CloseWrite: imm 0xc0000000        ────────▶   Read: io.EOF
//	  Read: io.EOF                      ◀────────   CloseWrite
//
// docs/rnet-protocol.md explains the immediates.
package netecho

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
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "net-echo",
	About:  "write a text to a net.Conn over the queue pair, read it back; round trips",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return kit.SideFunc(newServer) },
}}

func newClientSide(f *pflag.FlagSet) kit.Side {
	text := f.StringP("text", "s", "hello from a net.Conn", "the text to write")
	count := f.IntP("count", "n", 1000, "round trips to measure after the first")
	ring := kit.Size(64 << 10)
	f.Var(&ring, "ring", "bytes of each ring: a power of two from 64K to 16M")
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if *text == "" || *count < 0 {
			return nil, usage.Errorf("an echo needs a text, and not a negative number of round trips; try: --text hello --count 1000")
		}
		return &client{kit.NetConn{Ring: ring}, s.Logger, *text, *count}, kit.CheckRing(ring)
	})
}

// client is the client's endpoint.
type client struct {
	kit.NetConn
	log   *slog.Logger
	text  string
	count int
}

// Run writes the text and reads it back, many times.
func (e *client) Run(ctx context.Context, _ *rc.Conn) error {
	stop, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	event.MessageSent.Log(e.log, "write to the net.Conn", kit.TextAttr(e.text), slog.Int("bytes", len(e.text)))
	echo := make([]byte, len(e.text))
	if err := e.roundTrip(echo); err != nil {
		return err
	}
	event.MessageReceived.Log(e.log, "read from the net.Conn", kit.TextAttr(string(echo)), slog.Int("bytes", len(echo)))
	began := time.Now()
	for range e.count {
		if err := e.roundTrip(echo); err != nil {
			return err
		}
		kit.Progress(ctx)
	}
	took := time.Since(began)
	if err := e.End(); err != nil {
		return err
	}
	s := e.Stats()
	event.NetDone.Log(e.log, "SUCCESS, every echo is the text", slog.Uint64("written", s.BytesWritten), slog.Uint64("read", s.BytesRead),
		slog.Uint64("messages", s.MessagesSent), slog.Uint64("reports", s.ReportsSent), slog.Duration("took", took),
		slog.Float64("us_per_round_trip", kit.Rounded(float64(took)/float64(time.Microsecond)/float64(max(e.count, 1)))))
	return nil
}

// roundTrip writes the text once and reads it back into echo.
func (e *client) roundTrip(echo []byte) error {
	if _, err := io.WriteString(e.Conn, e.text); err != nil {
		return err
	}
	if _, err := io.ReadFull(e.Conn, echo); err != nil {
		return err
	}
	if string(echo) != e.text {
		return errors.Errorf("the echo is %.40q and the text %.40q; try: the same release at both ends", echo, e.text)
	}
	return nil
}

// server is the server's endpoint.
type server struct {
	kit.NetConn
	log *slog.Logger
}

func newServer(s kit.Session) (kit.Endpoint, error) {
	conn, err := kit.AskedNetConn(s)
	return &server{conn, s.Logger}, err
}

// Run copies what it reads, as an echo server over sockets does.
func (e *server) Run(ctx context.Context, _ *rc.Conn) error {
	stop, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if _, err := io.Copy(e.Conn, progress{e.Conn, ctx}); err != nil {
		return err
	}
	if err := e.End(); err != nil {
		return err
	}
	s := e.Stats()
	kit.Moved(ctx, int64(s.BytesRead+s.BytesWritten))
	event.NetDone.Log(e.log, "SUCCESS, everything was echoed", slog.Uint64("written", s.BytesWritten), slog.Uint64("read", s.BytesRead),
		slog.Uint64("messages", s.MessagesSent), slog.Uint64("reports", s.ReportsSent))
	return nil
}

// progress reports each read as progress of the job.
type progress struct {
	io.Reader
	ctx context.Context
}

func (p progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	kit.Progress(p.ctx)
	return n, err
}
