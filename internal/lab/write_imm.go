// The job "write-imm": the client WRITEs a text into the server's memory with an
// immediate, 32 bits that consume one of the server's receives. So the server's
// program hears that the data is there, by a completion, and no message but the
// data has crossed the network.

package lab

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var writeImmJob = job{
	name:  "write-imm",
	about: "WRITE a text with an immediate, which completes the server's RECV",
	flags: []string{"text", "size"},
	text:  "client-wrote-with-imm",
	client: func(o ClientOptions) (half, error) {
		if err := fitsRegion(o); err != nil {
			return nil, err
		}
		return &writeImmClient{narrator: narrator{o.Logger}, text: o.Text, region: o.Size}, nil
	},
	server: func(v visit) (half, error) {
		size, err := v.size()
		return &writeImmServer{narrator: narrator{v.Logger}, size: size}, err
	},
}

// writeImmClient is the client's half.
type writeImmClient struct {
	narrator
	text   string
	region Size // asked for

	source *verbs.MR
}

func (w *writeImmClient) configure(cfg *rc.Config) {
	params(cfg.Params).ask(int64(w.region))
}

func (w *writeImmClient) prepare(c *rc.Conn) (err error) {
	w.source, err = c.AllocMR("to write from", max(len(w.text), 1), 0)
	if err == nil {
		copy(w.source.Bytes(), w.text)
	}
	return err
}

func (w *writeImmClient) run(ctx context.Context, c *rc.Conn) error {
	n := len(w.text)
	remote, err := peerRegion(c, n)
	if err != nil {
		return err
	}
	// Host order here; the library puts it on the wire in network order, so that
	// both ends mean the same number whatever their processors.
	write := verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: uint32(n),
		SGL: gather(w.source, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if err := w.postSend(c.QP(), write); err != nil {
		return err
	}
	if _, err := w.waitSend(ctx, c, "the WRITE's completion"); err != nil {
		return err
	}
	tell(w.log, "data", "text.written", "", "wrote to the server's memory, and told its length", textAttr(w.text), slog.Int("imm", n))
	return nil
}

// writeImmServer is the server's half: it offers memory, and one receive without
// any, since the data has its place and only the immediate needs a completion.
type writeImmServer struct {
	narrator
	size   int
	region *verbs.MR
}

func (*writeImmServer) configure(*rc.Config) {}

func (w *writeImmServer) prepare(c *rc.Conn) (err error) {
	if w.region, err = offerRegion(c, w.size, verbs.AccessRemoteWrite); err != nil {
		return err
	}
	return w.postRecv(c.QP(), verbs.RecvWR{ID: idRecv})
}

func (w *writeImmServer) run(ctx context.Context, c *rc.Conn) error {
	wc, err := w.waitRecv(ctx, c, "the client's WRITE_WITH_IMM")
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != wc.ByteLen || int(wc.Imm()) > w.size {
		return fmt.Errorf("the completion is %v of %d bytes with the immediate %d, and a WRITE_WITH_IMM whose immediate is its length, at most %d, was to come; try: a client of this program's version",
			wc.Opcode, wc.ByteLen, wc.Imm(), w.size)
	}
	data := w.region.Bytes()[:wc.Imm()]
	w.memory("the region", data)
	tell(w.log, "data", "message.received", "", "the client wrote", textAttr(string(data)), slog.Int("bytes", len(data)), slog.Int64("imm", int64(wc.Imm())))
	return nil
}
