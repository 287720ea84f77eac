// Package writeread is the job "write-read": the client WRITEs a text into the server's
// memory and READs it back. The server's processor takes no part in either: its program
// learns of them only over TCP, when all is done.
package writeread

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = job.List{{
	Name:   "write-read",
	About:  "WRITE a text into the server's memory, READ it back, compare",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) job.Side { return job.SideFunc(newServer) },
}}

// The work requests.
const (
	idWrite = 1
	idRead  = 2
)

const barrierVerified = "read back"

func newClientSide(f *pflag.FlagSet) job.Side {
	var flags job.Text
	flags.AddFlags(f, "client-wrote-this", "the server's region", 4096)
	return job.SideFunc(func(s job.Session) (job.Endpoint, error) {
		if err := flags.Check("the server's region"); err != nil {
			return nil, err
		}
		return &client{Tracer: job.Tracer{Logger: s.Logger}, text: flags.Text, region: flags.Size}, nil
	})
}

// client is the client's endpoint.
type client struct {
	job.Tracer
	text   string
	region job.Size // asked for

	source, back *verbs.MR
}

func (w *client) Configure(cfg *rc.Config) {
	job.Params(cfg.Params).AskSize(w.region)
}

func (w *client) Prepare(c *rc.Conn) (err error) {
	if w.source, err = c.AllocMR("to write from", max(len(w.text), 1), 0); err != nil {
		return err
	}
	copy(w.source.Bytes(), w.text)
	w.back, err = c.AllocMR("to read into", max(len(w.text), 1), verbs.AccessLocalWrite)
	return err
}

func (w *client) Run(ctx context.Context, c *rc.Conn) error {
	n := len(w.text)
	remote, err := job.PeerRegion(c, n)
	if err != nil {
		return err
	}
	write := verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: job.Gather(w.source, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if err := w.PostSend(c.QP(), write); err != nil {
		return err
	}
	if _, err := w.WaitSend(ctx, c, "the WRITE's completion"); err != nil {
		return err
	}
	event.TextWritten.Log(w.Logger, "wrote to the server's memory", job.TextAttr(w.text), slog.Int("bytes", n))

	read := verbs.SendWR{ID: idRead, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
		SGL: job.Gather(w.back, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if err := w.PostSend(c.QP(), read); err != nil {
		return err
	}
	if _, err := w.WaitSend(ctx, c, "the READ's completion"); err != nil {
		return err
	}
	back := w.back.Bytes()[:n]
	w.LogMemory("read back", back)
	event.TextRead.Log(w.Logger, "read back from the server's memory", job.TextAttr(string(back)), slog.Int("bytes", n))
	if i := differAt([]byte(w.text), back); i >= 0 {
		return errors.Errorf("source and destination buffers differ from byte %d on; try: dmesg for errors of the device, and a capture of both ends", i)
	}
	event.BuffersMatch.Log(w.Logger, "SUCCESS, source and destination buffers match", slog.Int("bytes", n))
	return c.Barrier(ctx, barrierVerified)
}

// differAt is where two buffers of the same length first differ, -1 if nowhere.
func differAt(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// server is the server's endpoint: it offers memory, and waits.
type server struct {
	job.Tracer
	size   int
	region *verbs.MR
}

func newServer(s job.Session) (job.Endpoint, error) {
	size, err := s.AskedSize()
	return &server{Tracer: job.Tracer{Logger: s.Logger}, size: size}, err
}

func (*server) Configure(*rc.Config) {}

func (w *server) Prepare(c *rc.Conn) (err error) {
	w.region, err = job.OfferRegion(c, w.size, verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	return err
}

func (w *server) Run(ctx context.Context, c *rc.Conn) error {
	event.PeerAwaited.Log(w.Logger, "wait for the client's WRITE and READ, of which no completion will tell")
	if err := c.Barrier(ctx, barrierVerified); err != nil {
		return err
	}
	data := w.region.Bytes()
	w.LogMemory("the region", data)
	text, _, _ := bytes.Cut(data, []byte{0})
	event.RegionHolds.Log(w.Logger, "the region now begins with", job.TextAttr(string(text)))
	return nil
}
