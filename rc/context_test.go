package rc

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestEveryWaitSaysHowItsContextEnded: errors.Is finds the context's Err and its cause.
func TestEveryWaitSaysHowItsContextEnded(t *testing.T) {
	cause := errors.New("the user went home")
	ends := map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"canceled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled},
		"canceled before": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx, func() {}
		}, context.Canceled},
		"late": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 50*time.Millisecond, cause)
		}, context.DeadlineExceeded},
	}
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts nobody
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wcs [4]verbs.WC
	var c, s *end
	waits := map[string]func(context.Context) error{
		"Dial": func(ctx context.Context) error { _, err := Dial(ctx, silent.Addr().String(), Config{}); return err },
		"Listen": func(ctx context.Context) error {
			_, err := Listen(ctx, "nowhere.invalid:1", ListenConfig{})
			return err
		},
		"Accept":    func(ctx context.Context) error { _, err := l.Accept(ctx); return err },
		"WaitSend":  func(ctx context.Context) error { _, err := s.WaitSend(ctx); return err },
		"WaitRecv":  func(ctx context.Context) error { _, err := s.WaitRecv(ctx); return err },
		"WaitRecvs": func(ctx context.Context) error { _, err := s.WaitRecvs(ctx, wcs[:]); return err },
		"Do":        func(ctx context.Context) error { return c.Send(ctx, verbs.MRSlice{}) },
		"Barrier":   func(ctx context.Context) error { return c.Barrier(ctx, "alone") },
		"RecvNote":  func(ctx context.Context) error { _, err := c.RecvNote(ctx, ""); return err },
		"Finish":    func(ctx context.Context) error { return s.Finish(ctx) },
	}
	for how, end := range ends {
		for name, wait := range waits {
			if name == "Listen" && how != "canceled before" { // the look-up may be over sooner
				continue
			}
			if c, s = pair(t, Config{}, Config{}); name == "Do" {
				for range 4 { // takes the receives, so that Do's waits for one
					if err := c.Send(t.Context(), verbs.MRSlice{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			ctx, stop := end.end(t.Context())
			err := wait(ctx)
			stop()
			if !errors.Is(err, end.want) || !errors.Is(err, cause) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
	}
}

// TestDialEndsInPrepare: between two steps of connecting.
func TestDialEndsInPrepare(t *testing.T) {
	cause := errors.New("the user went home")
	ctx, cancel := context.WithCancelCause(t.Context())
	dev := openTestDevice(t)
	address := listen(t, Config{Device: dev}, func(error) {})
	_, err := Dial(ctx, address, Config{Device: dev, Prepare: func(*Conn) error { cancel(cause); return nil }})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}
