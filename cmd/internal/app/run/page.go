// The page of --http, which draws a server's clients while their jobs run.

package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// watched returns what the page of --http shows, and what takes the packets of dev for it. live is nil
// without --http. packets is zero without --http and for a device that is not a soft one.
func (o *ServerOptions) watched(dev *verbs.Device) (live *report.Live, packets sink) {
	if o.HTTP == "" {
		return nil, sink{}
	}
	live = report.NewLive(dev.Name())
	if softroce.CanCapture(dev) == nil {
		packets = sink{live.Packet, live.Wants}
	}
	return live, packets
}

// pageMemory is how many bytes the server needs for the page of --http.
func (o *ServerOptions) pageMemory() int64 {
	if o.HTTP == "" {
		return 0
	}
	return report.Memory
}

// servePage serves the page at o.HTTP, if that is set. Closing stop ends the page.
func (o *ServerOptions) servePage(ctx context.Context, live *report.Live) (stop io.Closer, err error) {
	if live == nil {
		return closerFunc(func() error { return nil }), nil
	}
	address, open, err := report.Address(o.HTTP)
	if err != nil {
		return nil, err // check has reported it
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http: %w; try: another port, or 0 for a free one", err)
	}
	text := fmt.Sprintf("the clients are drawn at http://%s/", listener.Addr())
	level := slog.LevelInfo
	if open {
		level = slog.LevelWarn
		text += "; there is no password, so everybody who reaches this address sees them"
	}
	event.PageServed.LogAt(level, o.Logger, text, slog.String("address", listener.Addr().String()), slog.Bool("open", open))
	until, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- live.Serve(until, listener, open) }()
	return closerFunc(func() error {
		end()
		return errors.WithMessage(<-served, "--http")
	}), nil
}
