// The job "send": the client SENDs a text, the server SENDs a reply.

package lab

import (
	"context"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var sendJob = job{
	name:  "send",
	about: "SEND a text, receive the server's reply",
	flags: []string{"text", "size"},
	text:  "hello from the client",
	client: func(o ClientOptions) (half, error) {
		if Size(len(o.Text)) > o.Size {
			return nil, Usagef("the message has %d bytes, the buffers %d; try: a shorter one, or --size %d", len(o.Text), o.Size, len(o.Text))
		}
		return &sendClient{newMailbox(o.Logger, int(o.Size)), o.Text}, nil
	},
	server: func(v visit) (half, error) {
		size, err := v.size()
		return &sendServer{newMailbox(v.Logger, size)}, err
	},
}

// The work requests of a mailbox; a completion names them by these.
const (
	idRecv = 1
	idSend = 2
)

// mailbox is one end's memory: a buffer to send from, a buffer to receive in.
type mailbox struct {
	narrator
	size       int
	send, recv *verbs.MR
}

func newMailbox(log *slog.Logger, size int) mailbox {
	return mailbox{narrator: narrator{log}, size: size}
}

// configure tells the server how large the buffers are to be.
func (m *mailbox) configure(cfg *rc.Config) { params(cfg.Params).ask(int64(m.size)) }

// prepare registers both buffers and posts the receive, so that it is there
// before the peer can send.
func (m *mailbox) prepare(c *rc.Conn) (err error) {
	if m.send, err = c.AllocMR("to send", m.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if m.recv, err = c.AllocMR("to receive", m.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	return m.postRecv(c.QP(), verbs.RecvWR{ID: idRecv, SGL: []verbs.SGE{m.recv.SGE(0, m.size)}})
}

// post SENDs text, which fits.
func (m *mailbox) post(c *rc.Conn, text string) error {
	n := copy(m.send.Bytes(), text)
	return m.postSend(c.QP(), verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: gather(m.send, n)})
}

// gather is the list of a region's first n bytes; none is an empty list, as an
// element of length 0 would stand for 2 GiB on some devices.
func gather(mr *verbs.MR, n int) []verbs.SGE {
	if n == 0 {
		return nil
	}
	return []verbs.SGE{mr.SGE(0, n)}
}

// sent waits until the peer has acknowledged the SEND.
func (m *mailbox) sent(ctx context.Context, c *rc.Conn) error {
	_, err := m.waitSend(ctx, c, "the SEND's completion")
	return err
}

// received waits for the peer's message.
func (m *mailbox) received(ctx context.Context, c *rc.Conn) (string, error) {
	wc, err := m.waitRecv(ctx, c, "the peer's message")
	if err != nil {
		return "", err
	}
	data := m.recv.Bytes()[:wc.ByteLen]
	m.memory("received", data)
	return string(data), nil
}

// sendClient is the client's half.
type sendClient struct {
	mailbox
	text string
}

func (s *sendClient) run(ctx context.Context, c *rc.Conn) error {
	if err := s.post(c, s.text); err != nil {
		return err
	}
	tell(s.log, "data", "message.sent", "", "message sent", textAttr(s.text), slog.Int("bytes", len(s.text)))
	if err := s.sent(ctx, c); err != nil {
		return err
	}
	reply, err := s.received(ctx, c)
	if err != nil {
		return err
	}
	tell(s.log, "data", "message.received", "", "reply from the server", textAttr(reply), slog.Int("bytes", len(reply)))
	return nil
}

// sendServer is the server's half.
type sendServer struct{ mailbox }

func (s *sendServer) run(ctx context.Context, c *rc.Conn) error {
	text, err := s.received(ctx, c)
	if err != nil {
		return err
	}
	tell(s.log, "data", "message.received", "", "message from the client", textAttr(text), slog.Int("bytes", len(text)))
	reply := cut(fmt.Sprintf("the server received %d bytes: %s", len(text), text), s.size)
	if err := s.post(c, reply); err != nil {
		return err
	}
	tell(s.log, "data", "message.sent", "", "reply sent", textAttr(reply), slog.Int("bytes", len(reply)))
	return s.sent(ctx, c)
}

// cut shortens s to at most n bytes without breaking a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
