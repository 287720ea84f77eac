// Package rocev2learn is the rocev2-learn programs: the client SENDs a text, the server
// SENDs a reply as long as its buffer.
//
//	client                                  server
//	22 bytes      <- QPN, LID, GID ->       22 bytes
//	INIT, RTR, RTS                          INIT, RTR, RTS, RECV
//	              <- one byte 'R'           (one way)
//	SEND          ->
//	              <- SEND
package rocev2learn

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Peer is the program, for the list in package run.
var Peer = job.Peer{
	Name:  "rocev2-learn",
	About: "rocev2-learn's rdma_server and rdma_client, in C",
	Port:  oob.DefaultPort,
	Jobs: job.List{{
		Name:   "rocev2-learn",
		About:  "the client SENDs a text, the server a reply",
		Client: func(f *pflag.FlagSet) job.Side { return newSide(f, "hello from the client", false) },
		Server: func(f *pflag.FlagSet) job.Side { return newSide(f, "hello from the server", true) },
	}},
}

// endpoint is either end.
type endpoint struct {
	job.Mailbox
	server bool
	text   string
}

func newSide(f *pflag.FlagSet, text string, server bool) job.Side {
	var flags job.Text
	flags.AddFlags(f, text, "each message buffer", 4096)
	return job.SideFunc(func(s job.Session) (job.Endpoint, error) { return newEndpoint(&s, &flags, server) })
}

func newEndpoint(s *job.Session, flags *job.Text, server bool) (job.Endpoint, error) {
	if err := job.CheckBuffer(flags.Size); err != nil {
		return nil, err
	}
	text := flags.Text
	if !flags.Chosen() {
		text = job.Cut(text, int(flags.Size)-1)
	}
	if len(text) >= int(flags.Size) {
		return nil, job.Usagef("the message has %d bytes with its NUL, the buffers %v; try: a shorter one, or --size %d", len(text)+1, flags.Size, len(text)+1)
	}
	return &endpoint{Mailbox: job.NewMailbox(s.Logger, int(flags.Size)), server: server, text: text}, nil
}

func (e *endpoint) tcp(c *rc.Conn) peer.TCP { return peer.NewTCP(e.Logger, c.TCP()) }

func (e *endpoint) Configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.PSN, cfg.MaxReads = new(uint32), 1
	cfg.Access = verbs.AccessLocalWrite
	cfg.Timing = &rc.Timing{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
}

func (e *endpoint) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	local := c.Local()
	mine, err := appendQueuePair(nil, queuePair{QPN: local.QPN, LID: local.LID, GID: local.GID})
	if err != nil {
		return err
	}
	tcp := e.tcp(c)
	data, err := tcp.Swap(ctx, "connection data", mine)
	if err != nil {
		return err
	}
	received, err := decodeQueuePair(data)
	if err != nil {
		return err
	}
	remote := peer.Complete(local, oob.Endpoint{QPN: received.QPN, LID: received.LID, GID: received.GID}) // its PSN is 0
	if err := up([]oob.Endpoint{remote}); err != nil {
		return err
	}
	if e.server {
		return tcp.Send(ctx, "ready", []byte{readyByte})
	}
	ready, err := tcp.Receive(ctx, "ready", 1)
	if err == nil && ready[0] != readyByte {
		err = fmt.Errorf("the server says %q where 'R', for a receive that is posted, was to come; try: a rocev2-learn server there", ready)
	}
	return err
}

func (e *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	if !e.server {
		if err := e.say(ctx, c, len(e.text)+1); err != nil {
			return err
		}
		return e.hear(ctx, c, "reply from the server")
	}
	if err := e.hear(ctx, c, "message from the client"); err != nil {
		return err
	}
	return e.say(ctx, c, e.Size)
}

// say SENDs the text, with its NUL, in a message of n bytes.
func (e *endpoint) say(ctx context.Context, c *rc.Conn, n int) error {
	copy(e.Send.Bytes(), e.text)
	wr := verbs.SendWR{ID: job.IDSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.Send.SGE(0, n)}}
	if err := e.PostSend(c.QP(), wr); err != nil {
		return err
	}
	job.Log(e.Logger, "data", "message.sent", "", "message sent", job.TextAttr(e.text), slog.Int("bytes", n))
	return e.unexchanged(c, e.AwaitSent(ctx, c))
}

func (e *endpoint) hear(ctx context.Context, c *rc.Conn, what string) error {
	data, err := e.Receive(ctx, c)
	if err != nil {
		return e.unexchanged(c, err)
	}
	text := peer.Text([]byte(data))
	job.Log(e.Logger, "data", "message.received", "", what, job.TextAttr(text), slog.Int("bytes", len(data)))
	return nil
}

// unexchanged says what a failure may come from that no exchange could show.
func (e *endpoint) unexchanged(c *rc.Conn, err error) error {
	return errors.WithMessagef(err, "this end has --mtu %d and --size %d, which are not exchanged and must be the peer's too", c.PathMTU(), e.Size)
}
