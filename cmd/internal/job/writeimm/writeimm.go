// Package writeimm is the job "write-imm": the client WRITEs a text into the server's memory
// with an immediate, 32 bits that consume one of the server's receives. So a completion shows
// the server's program that the data is there. No second message crosses the network.
package writeimm

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "write-imm",
	About:  "WRITE a text with immediate data, which completes the server's RECV",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return kit.SideFunc(newServer) },
}}

// The IDs of the work requests. Each end has one request.
const (
	idWrite = 1 // of the client
	idRecv  = 1 // of the server
)

func newClientSide(f *pflag.FlagSet) kit.Side {
	return kit.WriterSide(f, "client-wrote-with-imm", func(w kit.Writer) kit.Endpoint { return &client{w} })
}

// client is the client's endpoint.
type client struct{ kit.Writer }

// Run WRITEs the text, with its length as the immediate.
func (w *client) Run(ctx context.Context, c *rc.Conn) error {
	n := len(w.Text)
	// The immediate is in host order here. The library puts it on the wire in network
	// order, so both ends mean the same number on any processor.
	write := verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWriteWithImm, Imm: uint32(n)}
	if _, err := w.Write(ctx, c, write); err != nil {
		return err
	}
	event.TextWritten.Log(w.Logger, "wrote to the server's memory, with the length as the immediate", kit.TextAttr(w.Text), slog.Int("imm", n))
	return nil
}

// server is the server's endpoint. It offers memory, and posts one receive without memory: the
// WRITE names the place of the data, and only the immediate needs the receive.
type server struct{ kit.Target }

func newServer(s kit.Session) (kit.Endpoint, error) {
	target, err := kit.NewTarget(s, verbs.AccessRemoteWrite)
	return &server{target}, err
}

func (w *server) Prepare(c *rc.Conn) error {
	if err := w.Target.Prepare(c); err != nil {
		return err
	}
	return w.PostRecv(c.QP(), verbs.RecvWR{ID: idRecv})
}

func (w *server) Run(ctx context.Context, c *rc.Conn) error {
	wc, err := w.WaitRecv(ctx, c, "the client's WRITE_WITH_IMM")
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != wc.ByteLen || int(wc.Imm()) > w.Size {
		return errors.Errorf("the completion is %v of %d bytes with the immediate %d, expected a WRITE_WITH_IMM whose immediate is its length, at most %d; try: a client of this program's version",
			wc.Opcode, wc.ByteLen, wc.Imm(), w.Size)
	}
	data := w.Region.Bytes()[:wc.Imm()]
	kit.Moved(ctx, int64(len(data)))
	w.LogMemory("the region", data)
	event.MessageReceived.Log(w.Logger, "the client wrote", kit.TextAttr(kit.Beginning(data)), slog.Int("bytes", len(data)), slog.Int64("imm", int64(wc.Imm())))
	return nil
}
