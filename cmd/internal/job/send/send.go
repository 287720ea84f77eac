// Package send is the job "send": the client SENDs a text, the server SENDs a reply.
package send

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
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
		return &client{kit.NewMailbox(s.Logger, int(flags.Size)), flags.Text}, nil
	})
}

// client is the client's endpoint.
type client struct {
	kit.Mailbox
	text string
}

// Run SENDs the text and receives the reply.
func (e *client) Run(ctx context.Context, c *rc.Conn) error {
	if err := e.Post(c, copy(e.Send.Bytes(), e.text)); err != nil {
		return err
	}
	e.LogText(&event.MessageSent, "message sent", e.text, len(e.text))
	if err := e.AwaitSent(ctx, c); err != nil {
		return err
	}
	reply, err := e.Receive(ctx, c)
	if err != nil {
		return err
	}
	e.LogText(&event.MessageReceived, "reply from the server", kit.Beginning(reply), len(reply))
	return nil
}

// server is the server's endpoint.
type server struct{ kit.Mailbox }

func newServer(s kit.Session) (kit.Endpoint, error) {
	size, err := s.AskedSize()
	return &server{kit.NewMailbox(s.Logger, size)}, err
}

// Run receives a text and SENDs the reply.
func (e *server) Run(ctx context.Context, c *rc.Conn) error {
	text, err := e.Receive(ctx, c)
	if err != nil {
		return err
	}
	e.LogText(&event.MessageReceived, "message from the client", kit.Beginning(text), len(text))
	kit.Moved(ctx, int64(len(text)))
	answer := reply(e.Send.Bytes(), text)
	if err := e.Post(c, len(answer)); err != nil {
		return err
	}
	e.LogText(&event.MessageSent, "reply sent", kit.Beginning(answer), len(answer))
	kit.Moved(ctx, int64(len(answer)))
	return e.AwaitSent(ctx, c)
}

// reply writes the reply to a text into room, as much as fits.
func reply(room, text []byte) []byte {
	first := copy(room, fmt.Sprintf("the server received %d bytes: ", len(text)))
	// A character that would be cut stays out.
	return room[:first+copy(room[first:], kit.Cut(text, len(room)-first))]
}
