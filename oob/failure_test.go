package oob

// Tests of exchanges that fail because of the peer: the peer closes, fails, breaks the
// protocol, runs other steps, or is another program.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
)

// TestPeerClosesAtEveryOffset checks that the error names the bytes that arrived,
// wherever the peer stops.
func TestPeerClosesAtEveryOffset(t *testing.T) {
	noLeaks(t)
	frames := sessionFrames(t)
	sent := bytes.Join(frames, nil)
	for cut := range len(sent) {
		a, b := net.Pipe()
		client := NewConn(a, Options{})
		// A separate reader: the write must not wait until the session reads.
		reading := make(chan struct{})
		go func() { drain(b); close(reading) }()
		go func() { b.Write(sent[:cut]); b.Close() }()
		err := session(t.Context(), client, RoleClient)

		offset := cut // in the frame that was cut
		for i := 0; offset >= len(frames[i]); i++ {
			offset -= len(frames[i])
		}
		want := io.EOF
		if offset > 0 {
			want = io.ErrUnexpectedEOF
		}
		var closed *ClosedError
		if !errors.As(err, &closed) || !errors.Is(err, want) || closed.Got != offset || closed.First != (cut < len(frames[0])) {
			t.Fatalf("cut at %d, %d bytes into a frame: %v", cut, offset, err)
		}
		client.Close()
		<-reading
	}
}

func TestClosedTexts(t *testing.T) {
	frames := sessionFrames(t)
	for _, test := range []struct {
		bytes int
		text  string
	}{
		{0, "oob: waiting for hello: peer pipe closed the connection before it sent anything; look at"},
		{12 + 6, "peer pipe closed the connection after 18 of 25 bytes of a hello message; it was stopped or it crashed"},
		{12, "closed the connection after 12 of 25 bytes of a hello message"},
	} {
		a, b := net.Pipe()
		client := NewConn(a, Options{})
		go drain(b)
		go func() { b.Write(frames[0][:test.bytes]); b.Close() }()
		_, err := client.Hello(t.Context(), Hello{Role: RoleClient})
		text := strings.Replace(err.Error(), "sending", "waiting for", 1) // a write or a read may fail first
		if !strings.Contains(text, test.text) {
			t.Errorf("after %d bytes: %v", test.bytes, err)
		}
		client.Close()
	}
}

// TestFail checks that the peer's pending call and its next call return the reason.
func TestFail(t *testing.T) {
	for name, connect := range map[string]func(testing.TB, Options) (*Conn, *Conn){"pipe": pipe, "loopback": loopback} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			client, server := connect(t, Options{})
			go func() {
				server.Fail("RTR", errors.New("ibv_modify_qp: ETIMEDOUT\nno route"))
				server.Fail("again", errors.New("only the first is sent"))
				server.Close()
			}()
			for range 2 {
				_, err := client.Hello(t.Context(), Hello{Role: RoleClient})
				var failed *PeerError
				if !errors.As(err, &failed) || failed.Step != "RTR" || failed.Message != "ibv_modify_qp: ETIMEDOUT no route" {
					t.Fatal(err)
				}
				want := fmt.Sprintf("peer %v failed at step \"RTR\" and says: ibv_modify_qp", client.RemoteAddr())
				if !strings.Contains(err.Error(), want) {
					t.Errorf("text %q", err)
				}
				if !errors.As(errors.Wrap(client.Err(), "once more"), &failed) {
					t.Errorf("Err: %v", client.Err())
				}
			}
		})
	}
}

// TestBothFail checks that two sides that fail at the same time both get the other's
// reason.
func TestBothFail(t *testing.T) {
	for name, connect := range map[string]func(testing.TB, Options) (*Conn, *Conn){"pipe": pipe, "loopback": loopback} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			client, server := connect(t, Options{})
			fail := func(c *Conn, step string) func() error {
				return func() error {
					c.Fail(step, errors.New("broken"))
					<-c.Done()
					return c.Err()
				}
			}
			err1, err2 := both(fail(client, "client's"), fail(server, "server's"))
			for want, err := range map[string]error{"server's": err1, "client's": err2} {
				var failed *PeerError
				if !errors.As(err, &failed) || failed.Step != want {
					t.Errorf("want the %s reason, got %v", want, err)
				}
			}
		})
	}
}

// TestFailDoesNotEcho checks that Fail does not send the peer's own failure back, and
// sends nothing to a peer that has closed.
func TestFailDoesNotEcho(t *testing.T) {
	for _, cause := range []error{
		errors.Wrap(&PeerError{Message: "theirs"}, "at this end"),
		&ClosedError{Err: io.EOF},
		&ProtocolError{Err: ErrForeignPeer},
	} {
		a, b := net.Pipe()
		counted := &countingConn{Conn: a}
		c := NewConn(counted, Options{})
		go drain(b)
		c.Fail("step", cause)
		if n := counted.writes.Load(); n != 0 {
			t.Errorf("%v: %d writes", cause, n)
		}
		c.Close()
		b.Close()
	}
}

// TestStranger asks what ended a connection, at its first message and at a later one.
func TestStranger(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&ClosedError{First: true, Err: io.EOF}, true},
		{&ClosedError{Err: io.EOF}, false},
		{&TimeoutError{}, true},
		{&TimeoutError{Last: "its hello"}, false},
		{&ProtocolError{Err: ErrForeignPeer}, true},
		{&ProtocolError{Err: ErrVersion}, false},
		{&PeerError{}, false},
		{io.EOF, false},
	} {
		if err := errors.WithMessage(test.err, "hello"); Stranger(err) != test.want {
			t.Errorf("%T %+v: %v", test.err, test.err, !test.want)
		}
	}
}

// TestFailIsShort checks that Fail returns after a second if the peer reads nothing.
func TestFailIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := pipe(t, Options{})
		began := time.Now()
		client.Fail("step", nil)
		if took := time.Since(began); took != failTimeout {
			t.Errorf("took %v", took)
		}
	})
}

// TestFailWhileSending checks that a blocked write returns the peer's failure.
func TestFailWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, Options{})
		time.AfterFunc(time.Second, func() {
			server.nc.Write(AppendError(nil, goldenError)) // and does not read
		})
		err := client.SendNote(t.Context(), goldenNote)
		var failed *PeerError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), `sending note "result"`) {
			t.Error(err)
		}
	})
}

// TestMismatch checks that both sides get an error with both names if their steps differ.
func TestMismatch(t *testing.T) {
	uc := goldenEndpoint
	uc.QPType = QPTypeUC
	second := goldenEndpoint
	second.Index = 1
	hello := func(h Hello) func(context.Context, *Conn) error {
		return func(ctx context.Context, c *Conn) error { _, err := c.Hello(ctx, h); return err }
	}
	endpoints := func(list ...Endpoint) func(context.Context, *Conn) error {
		return func(ctx context.Context, c *Conn) error { _, err := c.ExchangeEndpoints(ctx, list); return err }
	}
	barrier := func(name string) func(context.Context, *Conn) error {
		return func(ctx context.Context, c *Conn) error { return c.Barrier(ctx, name) }
	}
	note := func(ctx context.Context, c *Conn) error { return c.SendNote(ctx, goldenNote) }
	recv := func(name string) func(context.Context, *Conn) error {
		return func(ctx context.Context, c *Conn) error { _, err := c.RecvNote(ctx, name); return err }
	}
	for _, test := range []struct {
		text           string
		client, server func(context.Context, *Conn) error
	}{
		{"both ends claim to be the server", hello(Hello{Role: RoleServer}), hello(Hello{Role: RoleServer})},
		{`runs the job "read" and the peer "write"`, hello(Hello{Role: RoleClient, Job: "read"}), hello(Hello{Role: RoleServer, Job: "write"})},
		{"has 1 queue pairs and the peer 2", endpoints(goldenEndpoint), endpoints(goldenEndpoint, second)},
		{"index 0 at this end and 1 at the peer", endpoints(goldenEndpoint), endpoints(second)},
		{"queue pair 0 is IBV_QPT_RC at this end and IBV_QPT_UC at the peer", endpoints(goldenEndpoint), endpoints(uc)},
		{`at the barrier "in RTS" and the peer at "done"`, barrier("in RTS"), barrier("done")},
		{`waits for barrier "done" and the peer sent note "result"`, barrier("done"), note},
		{`waits for the note "trace" and the peer sent "result"`, recv("trace"), note},
	} {
		client, server := loopback(t, Options{})
		err1, _ := both(
			func() error { return test.client(t.Context(), client) },
			func() error { return test.server(t.Context(), server) },
		)
		var breach *ProtocolError
		if !errors.As(err1, &breach) || !strings.Contains(err1.Error(), test.text) {
			t.Errorf("%s: %v", test.text, err1)
		}
		<-server.Done() // the error has arrived at the peer
		var failed *PeerError
		if !errors.As(server.Err(), &failed) || !strings.Contains(failed.Message, test.text) {
			t.Errorf("%s: the peer learns %v", test.text, server.Err())
		}
		client.Close()
		server.Close()
	}
}

// TestOtherVersion checks that the error names both versions, and that the peer can read
// the answer.
func TestOtherVersion(t *testing.T) {
	client, server := loopback(t, Options{})
	frame := sessionFrames(t)[0]
	frame[4] = 9
	if _, err := server.nc.Write(frame); err != nil {
		t.Fatal(err)
	}
	_, err := client.Hello(t.Context(), Hello{Role: RoleClient})
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "version 9 of the protocol, this end version 1") {
		t.Error(err)
	}
	client.Close()
	answer, err := io.ReadAll(server.nc)
	if err != nil && len(answer) == 0 {
		t.Fatal(err)
	}
	hello, err := appendHello(nil, Hello{Role: RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	// The client does not send its own hello if the peer's hello arrives first.
	got, err := decode(bytes.TrimPrefix(answer, hello))
	if failed, is := got.(*PeerError); !is || failed.Step != "hello" || !strings.Contains(failed.Message, "version 9") {
		t.Errorf("the peer got %+v, %v", got, err)
	}
}

// TestOversizeIsRefusedUnread checks that a body over the limit is not read, but for what one read brings
// together with the header.
func TestOversizeIsRefusedUnread(t *testing.T) {
	for _, kind := range []MessageType{TypeHello, TypeEndpoints, TypeRegions, TypeBarrier, TypeNote, TypeError} {
		header := []byte("RVO\n\x01_\x00\x00____")
		header[5] = byte(kind)
		binary.BigEndian.PutUint32(header[8:], uint32(kind.maxBody())+1)
		peer := &cannedPeer{rest: append(header, make([]byte, 1000)...)}
		c := NewConn(peer, Options{})
		_, err := c.RecvNote(t.Context(), "")
		c.Close()
		var breach *ProtocolError
		if !errors.As(err, &breach) || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%v: %v", kind, err)
		}
		if len(peer.rest) < 1000-quoteSize || peer.asked > quoteSize {
			t.Errorf("%v: %d bytes left of 1000, %d asked for", kind, len(peer.rest), peer.asked)
		}
	}
}

// TestFloodIsBounded checks that a peer blocks when it is inboxSize messages ahead.
func TestFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, Options{})
		var sent atomic.Int32
		go func() {
			for server.SendNote(t.Context(), Note{Name: fmt.Sprint(sent.Load())}) == nil {
				sent.Add(1)
			}
		}()
		watched, stop := client.Watch(t.Context())
		defer stop()
		synctest.Wait()
		if n := sent.Load(); n != inboxSize+1 { // the reader holds one more
			t.Errorf("%d notes were taken, want %d", n, inboxSize+1)
		}
		if watched.Err() != nil {
			t.Error(context.Cause(watched))
		}
		for i := range 100 {
			if n, err := client.RecvNote(t.Context(), ""); err != nil || n.Name != fmt.Sprint(i) {
				t.Fatalf("note %d: %+v, %v", i, n, err)
			}
		}
		client.Close()
	})
}

// TestWatch checks that the watched context ends when the peer does, with the cause.
func TestWatch(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(client, server *Conn)
		is   func(error) bool
	}{
		{"closed", func(_, s *Conn) { s.Close() }, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"failed", func(_, s *Conn) { s.Fail("poll", errors.New("status 12")) }, func(err error) bool {
			var e *PeerError
			return errors.As(err, &e) && e.Step == "poll"
		}},
		{"killed", func(_, s *Conn) { s.nc.(*net.TCPConn).SetLinger(0); s.Close() }, func(err error) bool {
			var e *ClosedError
			return errors.As(err, &e) && strings.Contains(err.Error(), "dropped the connection")
		}},
		{"garbage", func(_, s *Conn) { s.nc.Write([]byte("RVO\nxxxxxxxxxxxx")) }, func(err error) bool {
			return errors.Is(err, ErrVersion)
		}},
		{"closed here", func(c, _ *Conn) { c.Close() }, func(err error) bool { return errors.Is(err, net.ErrClosed) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeaks(t)
			client, server := loopback(t, Options{})
			watched, stop := client.Watch(t.Context())
			defer stop()
			if err := client.Err(); err != nil {
				t.Fatalf("Err before the end: %v", err)
			}
			test.end(client, server)
			<-watched.Done()
			if cause := context.Cause(watched); !test.is(cause) {
				t.Errorf("cause %v", cause)
			}
			<-client.Done()
		})
	}
}

// TestWatchStops checks that stopping the watch reports no error of the peer. It also
// checks that a barrier succeeds although the peer has closed after it.
func TestWatchStops(t *testing.T) {
	noLeaks(t)
	for range 50 {
		client, server := loopback(t, Options{})
		watched, stop := client.Watch(t.Context())
		err1, err2 := both(
			func() error { return client.Barrier(watched, "done") },
			func() error { defer server.Close(); return server.Barrier(t.Context(), "done") },
		)
		if err1 != nil || err2 != nil {
			t.Fatalf("client: %v; server: %v", err1, err2)
		}
		stop()
		if watched.Err() == nil {
			t.Error("the watch does not stop")
		}
		client.Close()
	}
}

// TestManyAtOnce calls every method at the same time, for the race detector.
func TestManyAtOnce(t *testing.T) {
	noLeaks(t)
	for range 20 {
		client, server := loopback(t, Options{Observer: func(Event) {}})
		var wg sync.WaitGroup
		for _, c := range []*Conn{client, server} {
			wg.Go(func() { session(t.Context(), c, RoleClient) })
			wg.Go(func() { c.Fail("step", errors.New("cause")) })
			wg.Go(func() {
				ctx, stop := c.Watch(t.Context())
				defer stop()
				<-ctx.Done()
				_ = c.Err()
			})
			wg.Go(func() { <-c.Done(); c.Close() })
		}
		wg.Wait()
	}
}
