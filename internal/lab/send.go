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

// The work requests of the job; a completion names them by these.
const (
	idRecv = 1
	idSend = 2
)

// mailbox is one end's memory: a buffer to send from, a buffer to receive in.
type mailbox struct {
	size       int
	send, recv *verbs.MR
	log        *slog.Logger
}

// prepare registers both buffers and posts the receive, so that it is there
// before the peer can send.
func (m *mailbox) prepare(c *rc.Conn) (err error) {
	if m.send, err = c.AllocMR("to send", m.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if m.recv, err = c.AllocMR("to receive", m.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	sge := m.recv.SGE(0, m.size)
	tell(m.log, "fast", "wr.posted", "ibv_post_recv", "post RECV", slog.Int("wr_id", idRecv), sgeAttr(sge))
	return c.QP().PostRecv([]verbs.RecvWR{{ID: idRecv, SGL: []verbs.SGE{sge}}})
}

// post SENDs text, which fits.
func (m *mailbox) post(c *rc.Conn, text string) error {
	n := copy(m.send.Bytes(), text)
	wr := verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	if n > 0 {
		wr.SGL = []verbs.SGE{m.send.SGE(0, n)}
	}
	tell(m.log, "data", "wr.posted", "ibv_post_send", "post SEND", slog.Int("wr_id", idSend),
		slog.Int("bytes", n), slog.String("flags", wr.Flags.String()))
	return c.QP().PostSend([]verbs.SendWR{wr})
}

// sent waits until the peer has acknowledged the SEND.
func (m *mailbox) sent(ctx context.Context, c *rc.Conn) error {
	wc, err := c.WaitSend(ctx)
	if err != nil {
		return fmt.Errorf("waiting for the SEND's completion: %w", err)
	}
	m.completed(wc)
	return nil
}

// received waits for the peer's message.
func (m *mailbox) received(ctx context.Context, c *rc.Conn) (string, error) {
	wc, err := c.WaitRecv(ctx)
	if err != nil {
		return "", fmt.Errorf("waiting for the peer's message: %w", err)
	}
	m.completed(wc)
	return string(m.recv.Bytes()[:wc.ByteLen]), nil
}

func (m *mailbox) completed(wc verbs.WC) {
	tell(m.log, "data", "wr.completed", "ibv_poll_cq", "completion", slog.Uint64("wr_id", wc.ID),
		slog.String("opcode", wc.Opcode.String()), slog.String("status", wc.Status.String()),
		slog.Int("byte_len", int(wc.ByteLen)))
}

func sgeAttr(s verbs.SGE) slog.Attr {
	return slog.Group("sge", slog.String("addr", fmt.Sprintf("%#x", s.Addr)), slog.Int("length", int(s.Length)),
		slog.String("lkey", fmt.Sprintf("%#x", s.LKey)))
}

// sendClient is the client's half.
type sendClient struct {
	mailbox
	text string
}

func newSendClient(o ClientOptions) half {
	return &sendClient{mailbox: mailbox{size: o.Size, log: o.Logger}, text: o.Text}
}

func (s *sendClient) prepare(c *rc.Conn) error {
	room, err := peerSize(c.PeerHello())
	if err != nil {
		return err
	}
	if room = min(room, s.size); len(s.text) > room {
		return fmt.Errorf("the message has %d bytes, the buffers %d; try: a shorter one, or --size %d at both ends", len(s.text), room, len(s.text))
	}
	return s.mailbox.prepare(c)
}

func (s *sendClient) run(ctx context.Context, c *rc.Conn) error {
	if err := s.post(c, s.text); err != nil {
		return err
	}
	tell(s.log, "data", "message.sent", "", "message sent", slog.String("text", s.text), slog.Int("bytes", len(s.text)))
	if err := s.sent(ctx, c); err != nil {
		return err
	}
	reply, err := s.received(ctx, c)
	if err != nil {
		return err
	}
	tell(s.log, "data", "message.received", "", "reply from the server", slog.String("text", reply), slog.Int("bytes", len(reply)))
	return nil
}

// sendServer is the server's half.
type sendServer struct{ mailbox }

func newSendServer(o ServerOptions, _ map[string]string) (half, error) {
	return &sendServer{mailbox{size: o.Size, log: o.Logger}}, nil
}

func (s *sendServer) run(ctx context.Context, c *rc.Conn) error {
	room, err := peerSize(c.PeerHello())
	if err != nil {
		return err
	}
	text, err := s.received(ctx, c)
	if err != nil {
		return err
	}
	tell(s.log, "data", "message.received", "", "message from the client", slog.String("text", text), slog.Int("bytes", len(text)))
	reply := cut(fmt.Sprintf("the server received %d bytes: %s", len(text), text), min(room, s.size))
	if err := s.post(c, reply); err != nil {
		return err
	}
	tell(s.log, "data", "message.sent", "", "reply sent", slog.String("text", reply), slog.Int("bytes", len(reply)))
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
