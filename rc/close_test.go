package rc

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// listen accepts peers and connects them. report gets the errors. The end of the test waits for all
// connections.
func listen(t *testing.T, cfg Config, report func(error)) (address string) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			in, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			serving.Go(func() {
				if _, err := in.Hello(t.Context()); err != nil {
					in.Refuse(err)
					report(err)
					return
				}
				c, err := in.Connect(t.Context(), cfg)
				if err == nil {
					<-c.Context().Done()
					err = context.Cause(c.Context())
					c.Close()
				}
				report(err)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// TestAPrepareThatDoesNotReturnLeavesNothing has a Prepare that panics, or ends its goroutine as
// t.Fatal does. The device can be closed, and the peer gets an error.
func TestAPrepareThatDoesNotReturnLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("no buffers today") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			dev := softtest.Open(t)
			peerErr := make(chan error, 1)
			address := listen(t, Config{Device: dev}, func(err error) { peerErr <- err })
			var panicked any
			var dialing sync.WaitGroup
			dialing.Go(func() {
				defer func() { panicked = recover() }()
				_, _ = Dial(t.Context(), address, Config{Device: dev, Prepare: func(c *Conn) error {
					if _, err := c.AllocMR("test", slot, verbs.AccessLocalWrite); err != nil {
						return err
					}
					end()
					return nil
				}})
				t.Error("Dial has returned")
			})
			dialing.Wait()
			if name == "panic" && panicked != "no buffers today" {
				t.Errorf("the panic became %v", panicked)
			}
			var failed *oob.PeerError
			if err := <-peerErr; !errors.As(err, &failed) || failed.Step != "prepare" {
				t.Errorf("the peer got %v", err)
			}
		})
	}
}

// TestAStoppedEndSaysSo cancels an end in the middle of the exchange. Its peer may try again, so it must not take
// this for a failure.
func TestAStoppedEndSaysSo(t *testing.T) {
	dev := softtest.Open(t)
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stopped := make(chan error, 1)
	go func() {
		in, err := l.Accept(t.Context())
		if err == nil {
			_, err = in.Hello(t.Context())
		}
		if err == nil {
			ctx, cancel := context.WithCancel(t.Context())
			_, err = in.Connect(ctx, Config{Device: dev, Prepare: func(*Conn) error {
				cancel()
				return nil
			}})
		}
		stopped <- err
	}()
	_, err = Dial(t.Context(), l.Addr().String(), Config{Device: dev})
	var pe *oob.PeerError
	if !errors.As(err, &pe) || pe.Step != event.Stopped {
		t.Errorf("Dial: %v", err)
	}
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("Connect: %v", err)
	}
}

// TestAPrepareThatFailsWithMemoryOfItsOwn checks that the error names what stays open, and that Close
// frees it after the program has closed its memory.
func TestAPrepareThatFailsWithMemoryOfItsOwn(t *testing.T) {
	var conn *Conn
	var mr *verbs.MR
	_, _, cerr, _ := dialPair(t, Config{Prepare: func(c *Conn) (err error) {
		conn = c
		if mr, err = c.PD().RegMR(make([]byte, slot), verbs.AccessLocalWrite); err != nil {
			return err
		}
		return errors.New("no buffers today")
	}}, Config{})
	if cerr == nil || !strings.HasPrefix(cerr.Error(), "prepare: no buffers today") || !errors.Is(cerr, syscall.EBUSY) || !strings.Contains(cerr.Error(), "1 MR") {
		t.Errorf("client: %v", cerr)
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseIsRepeatedAfterEBUSY checks that the next Close frees what a region of the program kept
// open, in order, and frees nothing twice.
func TestCloseIsRepeatedAfterEBUSY(t *testing.T) {
	records := &recorder{}
	c, _ := pair(t, Config{Logger: slog.New(records)}, Config{})
	mr, err := c.PD().AllocMR(slot, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "1 MR") {
			t.Errorf("Close with a region open: %v", err)
		}
		if records.count("free protection domain") != 0 || records.count("free queue pair") != 1 {
			t.Errorf("freed beside the region: %q", records.texts)
		}
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for _, object := range []string{"free queue pair", "free send completion queue", "free completion channel", "free protection domain"} {
		if n := records.count(object); n != 1 {
			t.Errorf("%s: %d times", object, n)
		}
	}
}

// TestCloseWhileConnecting closes a Conn from another goroutine at any step of the connecting. Dial
// fails, or Close runs after Dial.
func TestCloseWhileConnecting(t *testing.T) {
	dev := softtest.Open(t)
	address := listen(t, Config{Device: dev}, func(error) {})
	for name, finish := range map[string]func(*Conn) error{"Close": (*Conn).Close, "Disconnect": (*Conn).Disconnect} {
		for i := range 30 {
			var leaving sync.WaitGroup
			conn, err := Dial(t.Context(), address, Config{Device: dev, Prepare: func(c *Conn) error {
				if _, err := c.AllocMR("test", slot, verbs.AccessLocalWrite); err != nil {
					return err
				}
				leaving.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Microsecond)
					if err := finish(c); err != nil && !errors.Is(err, net.ErrClosed) {
						t.Errorf("%s: %v", name, err)
					}
				})
				return nil
			}})
			if name == "Close" && err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("Dial: %v", err)
			}
			leaving.Wait()
			if err == nil {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestCloseInPrepare checks that Close in Prepare does not wait for Dial.
func TestCloseInPrepare(t *testing.T) {
	dev := softtest.Open(t)
	address := listen(t, Config{Device: dev}, func(error) {})
	_, err := Dial(t.Context(), address, Config{Device: dev, Prepare: func(c *Conn) error {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.AllocMR("test", slot, 0); !errors.Is(err, net.ErrClosed) {
			t.Errorf("AllocMR after Close: %v", err)
		}
		return nil
	}})
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial: %v", err)
	}
}

// TestCloseEndsTheConnecting closes a Conn whose peer does not go on.
func TestCloseEndsTheConnecting(t *testing.T) {
	dev := softtest.Open(t)
	release := make(chan struct{})
	address := listen(t, Config{Device: dev, Prepare: func(*Conn) error { <-release; return nil }}, func(error) {})
	defer close(release)
	_, err := Dial(t.Context(), address, Config{Device: dev, Prepare: func(c *Conn) error {
		time.AfterFunc(testkit.Moment, func() { c.Close() })
		return nil
	}})
	if !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestCloseOfNothing: a program may defer Close before it looks at the error of the call that made the object.
func TestCloseOfNothing(t *testing.T) {
	for _, object := range []io.Closer{(*Conn)(nil), (*Listener)(nil), (*Server)(nil), new(Conn), new(Listener), new(Server)} {
		if err := object.Close(); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
}
