// The memory of jobs that SEND a text each way.

package kit

import (
	"context"
	"log/slog"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// The IDs of a Mailbox's work requests, which completions return.
const (
	IDRecv = 1
	IDSend = 2
)

// Mailbox is the memory of one end: a buffer to send from, and a buffer to receive in.
type Mailbox struct {
	Tracer
	Size       int // bytes of each buffer
	Send, Recv *verbs.MR
}

// NewMailbox makes a Mailbox, which has no memory before Prepare.
func NewMailbox(log *slog.Logger, size int) Mailbox {
	return Mailbox{Tracer: Tracer{log}, Size: size}
}

// Configure asks the server for buffers of the same size.
func (m *Mailbox) Configure(cfg *rc.Config) { Params(cfg.Params).AskSize(Size(m.Size)) }

// Memory returns the bytes of both buffers.
func (m *Mailbox) Memory() int64 { return 2 * int64(m.Size) }

// Prepare registers both buffers and posts the receive, before the peer can send.
func (m *Mailbox) Prepare(c *rc.Conn) (err error) {
	if m.Send, err = c.AllocMR("to send", m.Size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if m.Recv, err = c.AllocMR("to receive", m.Size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	return m.PostRecv(c.QP(), verbs.RecvWR{ID: IDRecv, SGL: []verbs.SGE{m.Recv.SGE(0, m.Size)}})
}

// Post SENDs the first n bytes of m.Send.
func (m *Mailbox) Post(c *rc.Conn, n int) error {
	return m.PostSend(c.QP(), verbs.SendWR{ID: IDSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: Gather(m.Send, n)})
}

// AwaitSent waits until the peer has acknowledged the SEND.
func (m *Mailbox) AwaitSent(ctx context.Context, c *rc.Conn) error {
	_, err := m.WaitSend(ctx, c, "the SEND's completion")
	return err
}

// Receive waits for the peer's message and returns it. It is memory of m.Recv.
func (m *Mailbox) Receive(ctx context.Context, c *rc.Conn) ([]byte, error) {
	wc, err := m.WaitRecv(ctx, c, "the peer's message")
	if err != nil {
		return nil, err
	}
	data := m.Recv.Bytes()[:wc.ByteLen]
	m.LogMemory("received", data)
	return data, nil
}
