package rc

import (
	"context"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestServersOfOtherTypes has servers of UC and UD queue pairs take one message of a client.
func TestServersOfOtherTypes(t *testing.T) {
	for _, qpType := range []verbs.QPType{verbs.UC, verbs.UD} {
		t.Run(qpType.Name(), func(t *testing.T) {
			dev := softtest.Open(t)
			prepare := func(c *Conn) error {
				mr, err := c.AllocMR("receive", slot, verbs.AccessLocalWrite)
				if err != nil {
					return err
				}
				return c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, slot)}}})
			}
			server, err := NewServer(ServerConfig{Config: Config{Device: dev, Type: qpType, Prepare: prepare}})
			if err != nil {
				t.Fatal(err)
			}
			l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			served, received := make(chan error, 1), make(chan error, 1)
			go func() {
				served <- server.Serve(ctx, l, func(ctx context.Context, c *Conn) error {
					_, err := c.WaitRecv(ctx)
					received <- err
					return err
				})
			}()
			conn, err := Dial(t.Context(), l.Addr().String(), Config{Device: dev, Type: qpType})
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Send(t.Context(), verbs.MRSlice{}); err != nil {
				t.Error(err)
			}
			if err := <-received; err != nil {
				t.Error(err)
			}
			if err := errors.WithMessage(conn.Finish(t.Context()), "Finish"); err != nil {
				t.Error(err)
			}
			stop()
			for name, err := range map[string]error{"Serve": <-served, "the Conn": conn.Close(), "the Server": server.Close()} {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}
