// Package send is the job "send": the client SENDs a text, the server SENDs a reply.
package send

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "send",
	About:  "SEND a text, receive the server's reply",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return kit.SideFunc(newServer) },
}}

func newClientSide(f *pflag.FlagSet) kit.Side {
	var flags kit.Text
	flags.AddFlags(f, "hello from the client", "each message buffer", 4096)
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if err := flags.Check("the buffers"); err != nil {
			return nil, err
		}
		return &client{mailbox{Tracer: kit.Tracer{Logger: s.Logger}, size: int(flags.Size)}, flags.Text}, nil
	})
}

// The IDs of the work requests.
const (
	idRecv = 1
	idSend = 2
)

// mailbox is the memory of one end: a buffer to send from, and a buffer to receive in.
type mailbox struct {
	kit.Tracer
	size       int // bytes of each buffer
	send, recv *verbs.MR
}

// Configure asks the server for buffers of the same size.
func (m *mailbox) Configure(cfg *rc.Config) { kit.Params(cfg.Params).AskSize(kit.Size(m.size)) }

// Memory returns the bytes of both buffers.
func (m *mailbox) Memory() int64 { return 2 * int64(m.size) }

// Prepare registers both buffers and posts the receive, before the peer can send.
func (m *mailbox) Prepare(c *rc.Conn) (err error) {
	if m.send, err = c.AllocMR("to send", m.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if m.recv, err = c.AllocMR("to receive", m.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	return m.PostRecv(c.QP(), verbs.RecvWR{ID: idRecv, SGL: []verbs.SGE{m.recv.SGE(0, m.size)}})
}

// post SENDs the first n bytes of m.send.
func (m *mailbox) post(c *rc.Conn, n int) error {
	return m.PostSend(c.QP(), verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: kit.Gather(m.send, n)})
}

// awaitSent waits until the peer has acknowledged the SEND.
func (m *mailbox) awaitSent(ctx context.Context, c *rc.Conn) error {
	_, err := m.WaitSend(ctx, c, "the SEND's completion")
	return err
}

// receive waits for the peer's message and returns it. It is memory of m.recv.
func (m *mailbox) receive(ctx context.Context, c *rc.Conn) ([]byte, error) {
	wc, err := m.WaitRecv(ctx, c, "the peer's message")
	if err != nil {
		return nil, err
	}
	data := m.recv.Bytes()[:wc.ByteLen]
	m.LogMemory("received", data)
	return data, nil
}

// client is the client's endpoint.
type client struct {
	mailbox
	text string
}

// Run SENDs the text and receives the reply.
func (e *client) Run(ctx context.Context, c *rc.Conn) error {
	if err := e.post(c, copy(e.send.Bytes(), e.text)); err != nil {
		return err
	}
	e.LogText(&event.MessageSent, "message sent", e.text, len(e.text))
	if err := e.awaitSent(ctx, c); err != nil {
		return err
	}
	reply, err := e.receive(ctx, c)
	if err != nil {
		return err
	}
	e.LogText(&event.MessageReceived, "reply from the server", kit.Beginning(reply), len(reply))
	return nil
}

// server is the server's endpoint.
type server struct{ mailbox }

func newServer(s kit.Session) (kit.Endpoint, error) {
	size, err := s.AskedSize()
	return &server{mailbox{Tracer: kit.Tracer{Logger: s.Logger}, size: size}}, err
}

// Run receives a text and SENDs the reply.
func (e *server) Run(ctx context.Context, c *rc.Conn) error {
	text, err := e.receive(ctx, c)
	if err != nil {
		return err
	}
	e.LogText(&event.MessageReceived, "message from the client", kit.Beginning(text), len(text))
	kit.Moved(ctx, int64(len(text)))
	answer := reply(e.send.Bytes(), text)
	if err := e.post(c, len(answer)); err != nil {
		return err
	}
	e.LogText(&event.MessageSent, "reply sent", kit.Beginning(answer), len(answer))
	kit.Moved(ctx, int64(len(answer)))
	return e.awaitSent(ctx, c)
}

// reply writes the reply to a text into room, as much as fits.
func reply(room, text []byte) []byte {
	first := copy(room, fmt.Sprintf("the server received %d bytes: ", len(text)))
	// A character that would be cut stays out.
	return room[:first+copy(room[first:], kit.Cut(text, len(room)-first))]
}
