package oob

// Conversations that fail at the peer: it closes, fails, breaks the protocol,
// does something else, or is something else.

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

// TestPeerClosesAtEveryOffset: wherever the peer stops, the error says how far
// the message came.
func TestPeerClosesAtEveryOffset(t *testing.T) {
	noLeaks(t)
	frames := sessionFrames(t)
	sent := bytes.Join(frames, nil)
	for cut := range len(sent) {
		a, b := net.Pipe()
		client := NewConn(a, Options{})
		// A reader of its own: the write must not wait for the session to read.
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
		text := strings.Replace(err.Error(), "sending", "waiting for", 1) // whichever met the end
		if !strings.Contains(text, test.text) {
			t.Errorf("after %d bytes: %v", test.bytes, err)
		}
		client.Close()
	}
}

// TestFail: the peer's pending call, and the next one, say why.
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

// TestBothFail: both ends fail at once, each learns the other's reason.
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

// TestFailDoesNotEcho: a failure that came from the peer is not sent back, and
// nothing is sent to a peer which has gone.
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

// TestFailIsShort: a peer that takes nothing holds up a failure for a second.
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

// TestFailWhileSending: an end stuck in a write learns that the peer failed.
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

// TestMismatch: ends that do not do the same both learn it, with both names.
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
		{"both ends say they are the server", hello(Hello{Role: RoleServer}), hello(Hello{Role: RoleServer})},
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
		<-server.Done() // the peer has the error
		var failed *PeerError
		if !errors.As(server.Err(), &failed) || !strings.Contains(failed.Message, test.text) {
			t.Errorf("%s: the peer learns %v", test.text, server.Err())
		}
		client.Close()
		server.Close()
	}
}

// TestOtherVersion: both names in the error, and an answer the peer can read.
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
	hello, err := AppendHello(nil, Hello{Role: RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	// The client's own hello is missing if the peer's was faster.
	failed, err := DecodeError(bytes.TrimPrefix(answer, hello))
	if err != nil || failed.Step != "hello" || !strings.Contains(failed.Message, "version 9") {
		t.Errorf("the peer got %+v, %v", failed, err)
	}
}

// TestOversizeIsRefusedUnread: not one byte of a body over the limit is read.
func TestOversizeIsRefusedUnread(t *testing.T) {
	for _, kind := range []MessageType{TypeHello, TypeEndpoints, TypeRegions, TypeBarrier, TypeNote, TypeError} {
		header := []byte("RVO\n\x01_\x00\x00____")
		header[5] = byte(kind)
		binary.BigEndian.PutUint32(header[8:], uint32(kind.MaxBody())+1)
		peer := &cannedPeer{rest: append(header, make([]byte, 100)...)}
		c := NewConn(peer, Options{})
		_, err := c.RecvNote(t.Context(), "")
		c.Close()
		var breach *ProtocolError
		if !errors.As(err, &breach) || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%v: %v", kind, err)
		}
		if len(peer.rest) != 100 || peer.asked > HeaderSize {
			t.Errorf("%v: %d bytes left of 100, %d asked for", kind, len(peer.rest), peer.asked)
		}
	}
}

// TestFloodIsBounded: a peer can be inboxSize messages ahead, then it waits.
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
		if n := sent.Load(); n != inboxSize+1 { // one more in the reader's hand
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

// TestWatch: the context for RDMA ends with the peer, and says why.
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

// TestWatchStops: an orderly end of the watch is not the peer's fault, and a
// barrier met is met, though the peer has closed since.
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
			t.Error("the watch goes on")
		}
		client.Close()
	}
}

// TestManyAtOnce: every method at the same time, for the race detector.
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
