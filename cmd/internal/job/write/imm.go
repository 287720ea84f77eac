// The job write-imm: the client WRITEs a text into the server's memory with an immediate, 32 bits
// that consume one of the server's receives. So a completion shows the server's program that the
// data is there. No second message crosses the network.

package write

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

type immClient struct{ writer }

// Run WRITEs the text, with its length as the immediate.
func (w *immClient) Run(ctx context.Context, c *rc.Conn) error {
	n := len(w.text)
	// The immediate is in host order here. The library puts it on the wire in network
	// order, so both ends mean the same number on any processor.
	write := verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWriteWithImm, Imm: uint32(n)}
	if _, err := w.write(ctx, c, write); err != nil {
		return err
	}
	event.TextWritten.Log(w.Logger, "wrote to the server's memory, with the length as the immediate", kit.TextAttr(w.text), slog.Int("imm", n))
	return nil
}

// immServer offers memory, and posts one receive without memory: the WRITE names the place of the
// data, and only the immediate needs the receive.
type immServer struct{ target }

func (t *immServer) Prepare(c *rc.Conn) error {
	if err := t.target.Prepare(c); err != nil {
		return err
	}
	return t.PostRecv(c.QP(), verbs.RecvWR{ID: idRecv})
}

func (t *immServer) Run(ctx context.Context, c *rc.Conn) error {
	wc, err := t.WaitRecv(ctx, c, "the client's WRITE_WITH_IMM")
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != wc.ByteLen || int(wc.Imm()) > t.size {
		return errors.Errorf("the completion is %v of %d bytes with the immediate %d, expected a WRITE_WITH_IMM whose immediate is its length, at most %d; try: a client of this program's version",
			wc.Opcode, wc.ByteLen, wc.Imm(), t.size)
	}
	data := t.region.Bytes()[:wc.Imm()]
	kit.Moved(ctx, int64(len(data)))
	t.LogMemory("the region", data)
	event.MessageReceived.Log(t.Logger, "the client wrote", kit.TextAttr(kit.Beginning(data)), slog.Int("bytes", len(data)), slog.Int64("imm", int64(wc.Imm())))
	return nil
}
