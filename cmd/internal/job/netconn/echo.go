// The job net-echo: a program for sockets, unchanged, on a queue pair. The client writes a text to
// a net.Conn and reads it back; the server copies what it reads.
//
//	client                                         server
//	  Write: copy to the staging ring,
//	  WRITE_WITH_IMM 21 bytes, imm 21   ────────▶   in the ring; Read copies it out
//	  Read copies it out                ◀────────   Write: WRITE_WITH_IMM 21 bytes, imm 21
//	  …
//	  CloseWrite: imm 0xc0000000        ────────▶   Read: io.EOF
//	  Read: io.EOF                      ◀────────   CloseWrite

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
)

func newEchoClient(f *pflag.FlagSet) kit.Side {
	text := f.StringP("text", "s", "hello from a net.Conn", "the text to write")
	count := f.IntP("count", "n", 1000, "round trips to measure after the first")
	ring := kit.Size(64 << 10)
	f.Var(&ring, "ring", "bytes of each ring: a power of two from 64K to 16M")
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if *text == "" || *count < 0 {
			return nil, usage.Errorf("an echo needs a text, and not a negative number of round trips; try: --text hello --count 1000")
		}
		return newEnd(&s, ring, roundTrips{*text, *count})
	})
}

// roundTrips writes the text and reads it back, once and then count times, which are measured.
type roundTrips struct {
	text  string
	count int
}

func (r roundTrips) do(ctx context.Context, e *end) error {
	event.MessageSent.Log(e.log, "write to the net.Conn", kit.TextAttr(r.text), slog.Int("bytes", len(r.text)))
	echo := make([]byte, len(r.text))
	if err := e.roundTrip(r.text, echo); err != nil {
		return err
	}
	event.MessageReceived.Log(e.log, "read from the net.Conn", kit.TextAttr(string(echo)), slog.Int("bytes", len(echo)))
	began := time.Now()
	for range r.count {
		if err := e.roundTrip(r.text, echo); err != nil {
			return err
		}
		kit.Progress(ctx)
	}
	took := time.Since(began)
	if err := e.finish(); err != nil {
		return err
	}
	s := e.Stats()
	e.done("SUCCESS, every echo is the text", s.MessagesSent, s.ReportsSent, slog.Duration("took", took),
		slog.Float64("us_per_round_trip", kit.Rounded(float64(took)/float64(time.Microsecond)/float64(max(r.count, 1)))))
	return nil
}

// roundTrip writes the text once and reads it back into echo.
func (e *end) roundTrip(text string, echo []byte) error {
	if _, err := io.WriteString(e.Conn, text); err != nil {
		return err
	}
	if _, err := io.ReadFull(e.Conn, echo); err != nil {
		return err
	}
	if string(echo) != text {
		return errors.Errorf("the echo is %.40q and the text %.40q; try: the same release at both ends", echo, text)
	}
	return nil
}

// echo copies what it reads, as an echo server over sockets does.
type echo struct{}

func (echo) do(ctx context.Context, e *end) error {
	if _, err := io.Copy(e.Conn, progress{e.Conn, ctx}); err != nil {
		return err
	}
	if err := e.finish(); err != nil {
		return err
	}
	s := e.Stats()
	kit.Moved(ctx, int64(s.BytesRead+s.BytesWritten))
	e.done("SUCCESS, everything was echoed", s.MessagesSent, s.ReportsSent)
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
