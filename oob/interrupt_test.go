package oob

// Tests of steps that do not finish: silent and slow peers, canceled contexts, and Close
// during a wait. Time is simulated where the test needs no real connection.

import (
	"context"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
)

// TestSlowPeer checks that a message may arrive slowly within the step's time limit.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, Options{})
		slow := server.nc
		frame := sessionFrames(t)[0]
		go func() {
			go drain(slow)
			for _, b := range frame {
				time.Sleep(DefaultTimeout / time.Duration(len(frame)+1))
				slow.Write([]byte{b})
			}
		}()
		if _, err := client.Hello(t.Context(), Hello{Role: RoleClient}); err != nil {
			t.Error(err)
		}
	})
}

func drain(nc net.Conn) {
	for buf := make([]byte, 4096); ; {
		if _, err := nc.Read(buf); err != nil {
			return
		}
	}
}

// pendingCalls are the calls that wait for the peer.
var pendingCalls = map[string]func(context.Context, *Conn) error{
	"hello": func(ctx context.Context, c *Conn) error {
		_, err := c.Hello(ctx, Hello{Role: RoleClient})
		return err
	},
	"endpoints": func(ctx context.Context, c *Conn) error {
		_, err := c.ExchangeEndpoint(ctx, goldenEndpoint)
		return err
	},
	"regions": func(ctx context.Context, c *Conn) error {
		_, err := c.ExchangeRegions(ctx, nil)
		return err
	},
	`barrier "done"`: func(ctx context.Context, c *Conn) error { return c.Barrier(ctx, "done") },
	`note "result"`: func(ctx context.Context, c *Conn) error {
		_, err := c.RecvNote(ctx, "result")
		return err
	},
	"raw bytes": func(ctx context.Context, c *Conn) error {
		_, err := c.ReadFull(ctx, "raw bytes", make([]byte, 8))
		return err
	},
}

// TestSilentPeer checks that each wait ends at the default timeout and names its step. A
// peer that does not read also blocks the writes of a pipe.
func TestSilentPeer(t *testing.T) {
	for step, call := range pendingCalls {
		for _, reads := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				client, server := pipe(t, Options{})
				if reads {
					go drain(server.nc)
				}
				began := time.Now()
				err := call(t.Context(), client)
				if took := time.Since(began); took != DefaultTimeout {
					t.Errorf("%s: took %v", step, took)
				}
				var timeout *TimeoutError
				var netErr net.Error
				switch {
				case !errors.As(err, &timeout), timeout.Step != step, timeout.Peer != "pipe", timeout.After != DefaultTimeout:
					t.Errorf("%s: %#v", step, err)
				case !errors.Is(err, context.DeadlineExceeded), !errors.Is(err, os.ErrDeadlineExceeded):
					t.Errorf("%s: %v matches no deadline error", step, err)
				case !errors.As(err, &netErr), !netErr.Timeout():
					t.Errorf("%s: %v is no timeout of package net", step, err)
				}
				if text := err.Error(); !strings.Contains(text, step+": timed out after 30s, peer pipe") {
					t.Errorf("%s: text %q", step, text)
				}
			})
		}
	}
}

// TestDeadlineOfContext checks that the context's deadline replaces the default timeout,
// and that a negative timeout means no limit.
func TestDeadlineOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, Options{Timeout: -1})
		go drain(server.nc)
		for _, limit := range []time.Duration{time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			_, err := client.RecvNote(ctx, "")
			cancel()
			if took := time.Since(began); took != limit || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("took %v: %v", took, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1000*time.Hour, cancel)
		if err := client.Barrier(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestTimeoutNamesProgress checks that the error names how much of a partial message
// arrived.
func TestTimeoutNamesProgress(t *testing.T) {
	for _, test := range []struct {
		bytes int
		text  string
	}{
		{2, "stopped after 2 of 12 bytes of a message header"},
		{11, "stopped after 11 of 12 bytes of a message header"},
		{12 + 3, "stopped after 15 of 25 bytes of a hello message"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t, Options{})
			go drain(server.nc)
			go server.nc.Write(sessionFrames(t)[0][:test.bytes])
			_, err := client.Hello(t.Context(), Hello{Role: RoleClient})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v, want %q", err, test.text)
			}
		})
	}
}

// TestTimeoutNamesTheLastMessage checks that the error does not call a peer silent that
// has sent something.
func TestTimeoutNamesTheLastMessage(t *testing.T) {
	for name, test := range map[string]struct {
		steps func(context.Context, *Conn) error
		text  string
	}{
		"nothing": {func(ctx context.Context, c *Conn) error { _, err := c.RecvNote(ctx, ""); return err }, "peer pipe is silent"},
		"hello": {func(ctx context.Context, c *Conn) error {
			if _, err := c.Hello(ctx, Hello{Role: RoleClient}); err != nil {
				return err
			}
			_, err := c.ExchangeEndpoint(ctx, goldenEndpoint)
			return err
		}, "oob: waiting for endpoints: timed out after 30s, peer pipe has sent nothing since its hello"},
		"raw bytes": {func(ctx context.Context, c *Conn) error {
			if _, err := c.ReadFull(ctx, "the first word", make([]byte, 4)); err != nil {
				return err
			}
			_, err := c.ReadFull(ctx, "the rest", make([]byte, 1000))
			return err
		}, "peer pipe stopped after 21 of 1000 bytes of the rest"},
		"raw bytes, all": {func(ctx context.Context, c *Conn) error {
			if _, err := c.ReadFull(ctx, "the first word", make([]byte, 25)); err != nil {
				return err
			}
			_, err := c.ReadFull(ctx, "the rest", make([]byte, 1000))
			return err
		}, "peer pipe has sent nothing since the first word"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := pipe(t, Options{})
				go drain(server.nc)
				if name != "nothing" {
					go server.nc.Write(sessionFrames(t)[0])
				}
				err := test.steps(t.Context(), client)
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("%v, want %q", err, test.text)
				}
			})
		})
	}
}

// TestCancel checks that a canceled wait ends at once with the cause, and that the
// connection works afterwards.
func TestCancel(t *testing.T) {
	cause := errors.New("^C")
	for step, call := range pendingCalls {
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t, Options{})
			go drain(server.nc)
			ctx, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			time.AfterFunc(time.Second, func() { cancel(cause) })
			err := call(ctx, client)
			if took := time.Since(began); took != time.Second {
				t.Errorf("%s: took %v", step, took)
			}
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "canceled at this end: ^C") {
				t.Errorf("%s: %v", step, err)
			}
			if err := call(ctx, client); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: a second time: %v", step, err)
			}
		})
	}
}

// TestCancelLeavesConnectionUsable cancels operations at many different moments. The
// connection must keep working: a deadline that is not cleared fails the next operation.
func TestCancelLeavesConnectionUsable(t *testing.T) {
	client, server := loopback(t, Options{})
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range i % 20 {
				runtime.Gosched()
			}
			cancel()
		}()
		var first [1]byte
		n, err := client.ReadFull(ctx, "a byte", first[:]) // no byte arrives
		if n != 0 || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d: %d, %v", i, n, err)
		}
		if err := server.WriteAll(t.Context(), "a byte", []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.ReadFull(t.Context(), "a byte", first[:]); err != nil || first[0] != byte(i) {
			t.Fatalf("%d: after a cancellation: % x, %v", i, first, err)
		}
	}
}

func TestCancelledWriteCutsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, Options{Timeout: time.Second})
		go server.nc.Read(make([]byte, 5)) // five bytes, then silence
		if err := client.Barrier(t.Context(), "one"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "sending") {
			t.Errorf("first: %v", err)
		}
		go drain(server.nc)
		if err := client.Barrier(t.Context(), "two"); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("second: %v, want nothing sent after a cut message", err)
		}
	})
}

func TestCloseWakesWaiters(t *testing.T) {
	for step, call := range pendingCalls {
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t, Options{})
			go drain(server.nc)
			time.AfterFunc(time.Second, func() { client.Close() })
			err := call(t.Context(), client)
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", step, err)
			}
			if err := client.Close(); err != nil {
				t.Errorf("%s: second Close: %v", step, err)
			}
			if err := call(t.Context(), client); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: after Close: %v", step, err)
			}
			if err := client.Err(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: Err: %v", step, err)
			}
		})
	}
}

// TestWaited: Waited counts while a call waits for the peer, and at no other time.
func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, Options{})
		time.Sleep(time.Second)
		if w := client.Waited(); w != 0 {
			t.Errorf("before a call: %v", w)
		}
		over := make(chan error)
		go func() { _, err := client.RecvNote(t.Context(), ""); over <- err }()
		time.Sleep(time.Second)
		if w := client.Waited(); w != time.Second {
			t.Errorf("in a call: %v", w)
		}
		if err := server.SendNote(t.Context(), Note{Name: "note"}); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err != nil || client.Waited() != 0 {
			t.Errorf("after a call: %v, %v", client.Waited(), err)
		}
	})
}
