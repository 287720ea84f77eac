// Package writeimm is the job "write-imm": the client WRITEs a text into the server's
// memory with an immediate, 32 bits that consume one of the server's receives. So the
// server's program learns by a completion that the data is there, and no message but the
// data has crossed the network.
package writeimm

import (
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
	Name:   "write-imm",
	About:  "WRITE a text with an immediate, which completes the server's RECV",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) job.Side { return job.SideFunc(newServer) },
}}

// The work requests, of which each end has one.
const (
	idWrite = 1 // of the client
	idRecv  = 1 // of the server
)

func newClientSide(f *pflag.FlagSet) job.Side {
	var flags job.Text
	flags.AddFlags(f, "client-wrote-with-imm", "the server's region", 4096)
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

	source *verbs.MR
}

func (w *client) Configure(cfg *rc.Config) {
	job.Params(cfg.Params).AskSize(w.region)
}

func (w *client) Prepare(c *rc.Conn) (err error) {
	w.source, err = c.AllocMR("to write from", max(len(w.text), 1), 0)
	if err == nil {
		copy(w.source.Bytes(), w.text)
	}
	return err
}

func (w *client) Run(ctx context.Context, c *rc.Conn) error {
	n := len(w.text)
	remote, err := job.PeerRegion(c, n)
	if err != nil {
		return err
	}
	// Host order here; the library puts it on the wire in network order, so that
	// both ends mean the same number whatever their processors.
	write := verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: uint32(n),
		SGL: job.Gather(w.source, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if err := w.PostSend(c.QP(), write); err != nil {
		return err
	}
	if _, err := w.WaitSend(ctx, c, "the WRITE's completion"); err != nil {
		return err
	}
	event.TextWritten.Log(w.Logger, "wrote to the server's memory, and told its length", job.TextAttr(w.text), slog.Int("imm", n))
	return nil
}

// server is the server's endpoint: it offers memory, and one receive without
// any, since the data has its place and only the immediate needs a completion.
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
	if w.region, err = job.OfferRegion(c, w.size, verbs.AccessRemoteWrite); err != nil {
		return err
	}
	return w.PostRecv(c.QP(), verbs.RecvWR{ID: idRecv})
}

func (w *server) Run(ctx context.Context, c *rc.Conn) error {
	wc, err := w.WaitRecv(ctx, c, "the client's WRITE_WITH_IMM")
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != wc.ByteLen || int(wc.Imm()) > w.size {
		return errors.Errorf("the completion is %v of %d bytes with the immediate %d, and a WRITE_WITH_IMM whose immediate is its length, at most %d, was to come; try: a client of this program's version",
			wc.Opcode, wc.ByteLen, wc.Imm(), w.size)
	}
	data := w.region.Bytes()[:wc.Imm()]
	w.LogMemory("the region", data)
	event.MessageReceived.Log(w.Logger, "the client wrote", job.TextAttr(string(data)), slog.Int("bytes", len(data)), slog.Int64("imm", int64(wc.Imm())))
	return nil
}
