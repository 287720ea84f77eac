//go:build unix

package rc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestAcceptOutlivesAShortage uses up all file descriptors while peers wait to be accepted, and then
// frees them.
func TestAcceptOutlivesAShortage(t *testing.T) {
	records := &recorder{}
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{Logger: slog.New(records)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		tcp, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
	}
	lift := noDescriptors(t)
	accepted := make(chan error, 1)
	accept := func() {
		in, err := l.Accept(t.Context())
		if err == nil {
			in.TCP().Close()
		}
		accepted <- err
	}
	go accept()
	l.untilShort(t, time.Time{})
	select {
	case err := <-accepted:
		t.Errorf("Accept without descriptors: %v", err)
	default:
	}
	lift()
	if err := testkit.Receive(t, accepted, "return of Accept"); err != nil {
		t.Errorf("Accept after the shortage: %v", err)
	}
	first := l.short
	lift = noDescriptors(t)
	go accept()
	l.untilShort(t, first)
	lift()
	if err := testkit.Receive(t, accepted, "return of Accept"); err != nil {
		t.Errorf("Accept after another: %v", err)
	}
	if n := records.count("cannot accept a connection"); n != 1 {
		t.Errorf("it was logged %d times: %q", n, records.texts)
	}
}

// untilShort waits until Accept pauses because of a shortage after a time.
func (l *Listener) untilShort(t *testing.T, after time.Time) {
	t.Helper()
	testkit.Until(t, "shortage", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.short.After(after)
	})
}

// TestAShortageEndsNoLaterThanItsWaiter checks that the context and Close end an Accept that pauses.
func TestAShortageEndsNoLaterThanItsWaiter(t *testing.T) {
	for name, want := range map[string]error{"context": context.Canceled, "Close": net.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			tcp, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer tcp.Close()
			noDescriptors(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			accepted := make(chan error, 1)
			go func() {
				_, err := l.Accept(ctx)
				accepted <- err
			}()
			l.untilShort(t, time.Time{})
			if want == net.ErrClosed {
				l.Close()
			} else {
				cancel()
			}
			if err := testkit.Receive(t, accepted, "return of Accept"); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

// TestAPauseEnds after its length, and sooner with the context and with Close.
func TestAPauseEnds(t *testing.T) {
	for name, want := range map[string]time.Duration{"length": time.Hour, "context": time.Second, "Close": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &Listener{cfg: ListenConfig{Logger: slog.New(slog.DiscardHandler)}, closed: make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch name {
				case "context":
					time.AfterFunc(time.Second, cancel)
				case "Close":
					time.AfterFunc(time.Second, func() { close(l.closed) })
				}
				began := time.Now()
				l.pause(ctx, time.Hour, syscall.EMFILE)
				if took := time.Since(began); took != want {
					t.Errorf("the pause took %v, want %v", took, want)
				}
			})
		})
	}
}

// noDescriptors makes the process get no new descriptor until lift is called, or the test ends.
func noDescriptors(t *testing.T) (lift func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(n syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &n); err != nil {
			panic(fmt.Sprint("setrlimit: ", err))
		}
	}
	none := limit
	none.Cur = 3
	lift = sync.OnceFunc(func() { set(limit) })
	t.Cleanup(lift)
	set(none)
	return lift
}
