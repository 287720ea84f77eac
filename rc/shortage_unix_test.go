//go:build unix

package rc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
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
	select {
	case err := <-accepted:
		lift()
		t.Fatalf("Accept without descriptors: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	lift()
	if err := <-accepted; err != nil {
		t.Errorf("Accept after the shortage: %v", err)
	}
	lift = noDescriptors(t)
	go accept()
	time.Sleep(50 * time.Millisecond)
	lift()
	if err := <-accepted; err != nil {
		t.Errorf("Accept after another: %v", err)
	}
	if n := records.count("cannot accept a connection"); n != 1 {
		t.Errorf("it was logged %d times: %q", n, records.texts)
	}
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
			defer noDescriptors(t)()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(100*time.Millisecond, func() {
				if want == net.ErrClosed {
					l.Close()
				} else {
					cancel()
				}
			})
			if _, err := l.Accept(ctx); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

// noDescriptors makes the process get no new descriptor until lift is called.
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
	set(none)
	return func() { set(limit) }
}
