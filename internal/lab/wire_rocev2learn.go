// The job of the rocev2-learn programs: the client SENDs a text, the server SENDs a
// reply as long as its buffer.
//
//	client                                  server
//	22 bytes      <- QPN, LID, GID ->       22 bytes
//	INIT, RTR, RTS                          INIT, RTR, RTS, RECV
//	              <- one byte 'R'           (one way)
//	SEND          ->
//	              <- SEND

package lab

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var rocev2LearnJob = job{
	name:  "rocev2-learn",
	about: "the client SENDs a text, the server a reply",
	flags: []string{"text", "size"},
	client: func(o ClientOptions) (half, error) {
		return newRoCEv2Learn(&o.Options, &o.JobOptions, "hello from the client", false)
	},
	server: func(v visit) (half, error) {
		return newRoCEv2Learn(&v.Options, &v.JobOptions, "hello from the server", true)
	},
}

// roceV2Learn is either end.
type roceV2Learn struct {
	mailbox
	server bool
	text   string
}

func newRoCEv2Learn(o *Options, j *JobOptions, text string, server bool) (half, error) {
	if j.Text != "" {
		text = j.Text
	} else {
		text = cut(text, int(j.Size)-1)
	}
	if len(text) >= int(j.Size) {
		return nil, Usagef("the message has %d bytes with its NUL, the buffers %v; try: a shorter one, or --size %d", len(text)+1, j.Size, len(text)+1)
	}
	return &roceV2Learn{mailbox: newMailbox(o.Logger, int(j.Size)), server: server, text: text}, nil
}

func (e *roceV2Learn) configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.PSN, cfg.MaxReads = new(uint32), 1
	cfg.Access = verbs.AccessLocalWrite
	cfg.Timing = &rc.Timing{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
}

func (e *roceV2Learn) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	local := c.Local()
	mine, err := oob.AppendRoCEv2Learn(nil, oob.RoCEv2Learn{QPN: local.QPN, LID: local.LID, GID: local.GID})
	if err != nil {
		return err
	}
	tcp := e.raw(c)
	data, err := tcp.swap(ctx, "connection data", mine)
	if err != nil {
		return err
	}
	heard, err := oob.DecodeRoCEv2Learn(data)
	if err != nil {
		return err
	}
	peer := asHere(local, oob.Endpoint{QPN: heard.QPN, LID: heard.LID, GID: heard.GID}) // its PSN is 0
	if err := up([]oob.Endpoint{peer}); err != nil {
		return err
	}
	if e.server {
		return tcp.send(ctx, "ready", []byte{oob.RoCEv2LearnReady})
	}
	ready, err := tcp.receive(ctx, "ready", 1)
	if err == nil && ready[0] != oob.RoCEv2LearnReady {
		err = fmt.Errorf("the server says %q where 'R', for a receive that is posted, was to come; try: a rocev2-learn server there", ready)
	}
	return err
}

func (e *roceV2Learn) run(ctx context.Context, c *rc.Conn) error {
	if !e.server {
		if err := e.say(ctx, c, len(e.text)+1); err != nil {
			return err
		}
		return e.hear(ctx, c, "reply from the server")
	}
	if err := e.hear(ctx, c, "message from the client"); err != nil {
		return err
	}
	return e.say(ctx, c, e.size)
}

// say SENDs the text, with its NUL, in a message of n bytes.
func (e *roceV2Learn) say(ctx context.Context, c *rc.Conn, n int) error {
	copy(e.send.Bytes(), e.text)
	wr := verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.send.SGE(0, n)}}
	if err := e.postSend(c.QP(), wr); err != nil {
		return err
	}
	tell(e.log, "data", "message.sent", "", "message sent", textAttr(e.text), slog.Int("bytes", n))
	return e.unexchanged(c, e.sent(ctx, c))
}

func (e *roceV2Learn) hear(ctx context.Context, c *rc.Conn, what string) error {
	data, err := e.received(ctx, c)
	if err != nil {
		return e.unexchanged(c, err)
	}
	text := untilNUL([]byte(data))
	tell(e.log, "data", "message.received", "", what, textAttr(text), slog.Int("bytes", len(data)))
	return nil
}

// unexchanged says what a failure may come from that no exchange could show.
func (e *roceV2Learn) unexchanged(c *rc.Conn, err error) error {
	return errors.WithMessagef(err, "this end has --mtu %d and --size %d, which are not exchanged and must be the peer's too", c.PathMTU(), e.size)
}
