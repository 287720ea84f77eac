package rc

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestEveryWaitSaysHowItsContextEnded checks that errors.Is finds the context's Err and its cause.
func TestEveryWaitSaysHowItsContextEnded(t *testing.T) {
	cause := errors.New("the user went home")
	ends := map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"canceled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(testkit.Moment, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled},
		"canceled before": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx, func() {}
		}, context.Canceled},
		"late": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, testkit.Moment, cause)
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
		"Barrier":   func(ctx context.Context) error { return c.TCP().Barrier(ctx, "alone") },
		"RecvNote":  func(ctx context.Context) error { _, err := c.TCP().RecvNote(ctx, ""); return err },
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

// TestDialEndsInPrepare cancels Dial between two steps of connecting.
func TestDialEndsInPrepare(t *testing.T) {
	cause := errors.New("the user went home")
	ctx, cancel := context.WithCancelCause(t.Context())
	dev := softtest.Open(t)
	address := listen(t, Config{Device: dev}, func(error) {})
	_, err := Dial(ctx, address, Config{Device: dev, Prepare: func(*Conn) error { cancel(cause); return nil }})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

// TestAContextEndsAStalledMove checks that Dial returns while the kernel still looks for the peer, and
// that everything is freed when the kernel is done.
func TestAContextEndsAStalledMove(t *testing.T) {
	for name, test := range map[string]struct {
		typ   verbs.QPType
		stall func(f *faulty, wait func())
	}{
		"Modify": {verbs.RC, func(f *faulty, wait func()) {
			f.modify = func(to *verbs.QPAttr) error {
				if to.State == verbs.QPSRTR {
					wait()
				}
				return nil
			}
		}},
		"CreateAH": {verbs.UD, func(f *faulty, wait func()) { f.createAH = wait }},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			dev, faults := openFaulty(t)
			stalled, done := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(done) })
			t.Cleanup(release)
			test.stall(faults, func() { close(stalled); <-done })
			address := listen(t, Config{Device: softtest.Open(t), Type: test.typ}, func(error) {})
			cause := errors.New("the user went home")
			ctx, cancel := context.WithCancelCause(t.Context())
			dialed := make(chan error, 1)
			records := &recorder{}
			go func() {
				_, err := Dial(ctx, address, Config{Device: dev, Type: test.typ, Logger: slog.New(records)})
				dialed <- err
			}()
			<-stalled
			cancel(cause)
			if err := testkit.Receive(t, dialed, "return of Dial, although the kernel's call goes on"); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			logged := records.count("")
			release()
			var left error
			testkit.Until(t, "end of what Dial left", func() bool { left = dev.Close(); return left == nil }, func() string { return left.Error() })
			if n := records.count(""); n != logged {
				t.Errorf("%d records after Dial's return", n-logged)
			}
		})
	}
}

// TestConnectReturnsWhenAllIsFreed ends Connect's context while the kernel looks for the peer. A server counts the client's
// objects until Connect returns.
func TestConnectReturnsWhenAllIsFreed(t *testing.T) {
	leavesNothing(t)
	dev, faults := openFaulty(t)
	stalled, done := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(done) })
	t.Cleanup(release)
	faults.modify = func(to *verbs.QPAttr) error {
		if to.State == verbs.QPSRTR {
			close(stalled)
			<-done
		}
		return nil
	}
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer := softtest.Open(t)
	dialed := make(chan error, 1)
	go func() {
		_, err := Dial(t.Context(), l.Addr().String(), Config{Device: peer})
		dialed <- err
	}()
	in, err := l.Accept(testkit.Context(t))
	if err == nil {
		_, err = in.Hello(testkit.Context(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	connected := make(chan error, 1)
	var left error
	go func() {
		_, err := in.Connect(ctx, Config{Device: dev})
		left = dev.Close() // EBUSY if it has objects
		connected <- err
	}()
	testkit.Receive(t, stalled, "the move to RTR")
	cancel()
	time.Sleep(stalledPatience + testkit.Moment) // after which a Dial would return
	release()
	if err := testkit.Receive(t, connected, "end of Connect"); !errors.Is(err, context.Canceled) {
		t.Errorf("Connect returned %v", err)
	}
	if left != nil {
		t.Errorf("after Connect's return: %v", left)
	}
	if err := testkit.Receive(t, dialed, "end of Dial"); err == nil {
		t.Error("Dial connected to a server that had given up")
	}
}

// TestAPanicOfALoggerReachesTheCaller panics in the record of each move, at Dial and at Connect.
func TestAPanicOfALoggerReachesTheCaller(t *testing.T) {
	for _, move := range []string{"RESET→INIT", "INIT→RTR", "RTR→RTS"} {
		t.Run(move, func(t *testing.T) {
			dev := softtest.Open(t)
			address := listen(t, Config{Device: dev}, func(error) {})
			defer func() {
				if got := recover(); got != "of the Logger" {
					t.Errorf("got the panic %v", got)
				}
			}()
			_, err := Dial(t.Context(), address, Config{Device: dev, Logger: slog.New(&panicLogger{on: move})})
			t.Errorf("Dial returned %v", err)
		})
	}
}

// TestALoggerThatEndsTheGoroutine ends it in a move, as t.FailNow does: the move has not succeeded.
func TestALoggerThatEndsTheGoroutine(t *testing.T) {
	dev := softtest.Open(t)
	address := listen(t, Config{Device: dev}, func(error) {})
	_, err := Dial(t.Context(), address, Config{Device: dev, Logger: slog.New(&panicLogger{on: "INIT→RTR", exit: true})})
	if !errors.Is(err, errAborted) {
		t.Errorf("got %v", err)
	}
}

// panicLogger panics, or ends the goroutine, in the record of a move.
type panicLogger struct {
	recorder
	on   string
	exit bool
}

func (l *panicLogger) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *panicLogger) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, l.on) {
		if l.exit {
			runtime.Goexit()
		}
		panic("of the Logger")
	}
	return nil
}
