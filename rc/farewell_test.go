package rc

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// logTexts is a slog.Handler that keeps each record's level and text.
type logTexts struct {
	slog.Handler
	mu    sync.Mutex
	texts []string
}

func (h *logTexts) Enabled(context.Context, slog.Level) bool { return true }

func (h *logTexts) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, r.Level.String()+" "+r.Message)
	return nil
}

func (h *logTexts) index(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, t := range h.texts {
		if t == text {
			return i
		}
	}
	return -1
}

// finish meets in "done" and closes both ends, side by side.
func finish(t *testing.T, ends ...*end) (closed []error) {
	t.Helper()
	closed = make([]error, len(ends))
	var all sync.WaitGroup
	for i, e := range ends {
		all.Go(func() {
			if err := e.Finish(t.Context()); err != nil {
				t.Error(err)
			}
			closed[i] = e.Close()
		})
	}
	all.Wait()
	return closed
}

// The ends talk once more after everything is freed. These messages are logged below the dumps.
func TestFarewellRunsAfterEverythingIsFreed(t *testing.T) {
	ch, sh := &logTexts{}, &logTexts{}
	c, s := pair(t, Config{Logger: slog.New(ch)}, Config{Logger: slog.New(sh)})
	c.Farewell(func(ctx context.Context, tcp *oob.Conn) error {
		slog.New(ch).Info("the client's farewell")
		if err := tcp.SendNote(ctx, oob.Note{Name: "how was it?"}); err != nil {
			return err
		}
		_, err := tcp.RecvNote(ctx, "fine")
		return err
	})
	s.Farewell(func(ctx context.Context, tcp *oob.Conn) error {
		if _, err := tcp.RecvNote(ctx, "how was it?"); err != nil {
			return err
		}
		return tcp.SendNote(ctx, oob.Note{Name: "fine"})
	})
	for _, err := range finish(t, c, s) {
		if err != nil {
			t.Error(err)
		}
	}
	if freed, farewell := ch.index("DEBUG free protection domain"), ch.index("INFO the client's farewell"); freed < 0 || farewell < freed {
		t.Errorf("freed %d, farewell %d: %q", freed, farewell, ch.texts)
	}
	for _, h := range []*logTexts{ch, sh} {
		for _, m := range []string{"how was it?", "fine"} {
			if h.index(`DEBUG-8 sent note "`+m+`"`) < 0 && h.index(`DEBUG-8 received note "`+m+`"`) < 0 {
				t.Errorf("no note %q: %q", m, h.texts)
			}
		}
	}
}

// A note of the job itself is logged like every message.
func TestNoteBeforeTheEnd(t *testing.T) {
	h := &logTexts{}
	c, s := pair(t, Config{Logger: slog.New(h)}, Config{})
	if err := c.tcp.SendNote(t.Context(), oob.Note{Name: "result"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tcp.RecvNote(t.Context(), "result"); err != nil {
		t.Fatal(err)
	}
	if h.index(`DEBUG sent note "result"`) < 0 {
		t.Errorf("%q", h.texts)
	}
}

// Close returns the error of a farewell that fails, and limits one that hangs.
func TestCloseReturnsTheFarewellsError(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	s.cfg.Timeout = testkit.Moment // not for the messages before
	c.Farewell(func(context.Context, *oob.Conn) error { return errors.New("no words") })
	s.Farewell(func(ctx context.Context, _ *oob.Conn) error {
		<-ctx.Done()
		return ctx.Err()
	})
	closed := finish(t, c, s)
	if closed[0] == nil || !strings.Contains(closed[0].Error(), "farewell: no words") {
		t.Errorf("client: %v", closed[0])
	}
	if !errors.Is(closed[1], context.DeadlineExceeded) {
		t.Errorf("server: %v", closed[1])
	}
}

// TestTheFarewellsLimit checks the limit of a farewell: the Timeout if there is one, and else the default.
func TestTheFarewellsLimit(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Hour, 0: oob.DefaultTimeout, -1: oob.DefaultTimeout} {
		synctest.Test(t, func(t *testing.T) {
			c := &Conn{finished: true}
			c.cfg.Timeout = timeout
			c.Farewell(func(ctx context.Context, _ *oob.Conn) error {
				<-ctx.Done()
				return ctx.Err()
			})
			began := time.Now()
			if err := c.sayFarewell(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != want {
				t.Errorf("Timeout %v: %v after %v, want the end after %v", timeout, err, time.Since(began), want)
			}
		})
	}
}

// Close does not run Farewell without a Finish.
func TestNoFarewellWithoutFinish(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	for _, e := range []*end{c, s} {
		e.Farewell(func(context.Context, *oob.Conn) error {
			t.Error("a farewell")
			return nil
		})
	}
	s.TCP().Fail("job", errors.New("the disk is full"))
	if err := c.Finish(t.Context()); err == nil {
		t.Error("Finish after a failure")
	}
	for _, e := range []*end{c, s} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
