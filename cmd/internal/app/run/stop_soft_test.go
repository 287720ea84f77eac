//go:build !rdma

package run

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestStoppedWhileItRefuses stops a server that is about to refuse a client. No job is cut short, so that is no error.
func TestStoppedWhileItRefuses(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	refuses := kit.SideFunc(func(kit.Session) (kit.Endpoint, error) {
		stop()
		time.Sleep(testkit.Moment) // likely, the jobs end meanwhile
		return nil, errors.New("this job is refused")
	})
	s := oneJob(t, refuses)
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.serveAll(ctx, l) }()
	if _, err := rc.Dial(t.Context(), l.Addr().String(), rc.Config{Device: s.dev, Job: "send"}); err == nil || !strings.Contains(err.Error(), "this job is refused") {
		t.Errorf("the client: %v", err)
	}
	if err := testkit.Receive(t, served, "end of the server"); err != nil {
		t.Errorf("the server: %v", err)
	}
}

// oneJob is a server that does one job, named send.
func oneJob(t *testing.T, side kit.Side) *server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	peer, err := findPeer(native)
	if err != nil {
		t.Fatal(err)
	}
	o := ServerOptions{Options: Options{IBPort: 1, Timeout: testkit.Limit, Logger: log}, MaxClients: 1, Counts: new(Counts),
		Selection: &Selection{Peer: peer, sides: map[string]kit.Side{"send": side}}}
	o.Counts.expect(o.does())
	return &server{ServerOptions: o, dev: softtest.Open(t), all: log, admission: admission.New(o.limits(0))}
}
