package oob

// Tests of complete, successful exchanges over net.Pipe and loopback TCP, and the helpers
// of all tests.

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// session runs the steps of a typical program, up to the last barrier.
func session(ctx context.Context, c *Conn, role Role) error {
	if _, err := c.Hello(ctx, Hello{Role: role, Job: "write", Program: "test"}); err != nil {
		return err
	}
	if _, err := c.ExchangeEndpoint(ctx, goldenEndpoint); err != nil {
		return err
	}
	if _, err := c.ExchangeRegions(ctx, []Region{goldenRegion}); err != nil {
		return err
	}
	if err := c.Barrier(ctx, "in RTS"); err != nil {
		return err
	}
	return c.Barrier(ctx, "done")
}

// sessionFrames returns the messages that the server sends in session.
func sessionFrames(t testing.TB) [][]byte {
	t.Helper()
	hello, err1 := appendHello(nil, Hello{Role: RoleServer, Job: "write", Program: "test"})
	endpoints, err2 := appendEndpoints(nil, []Endpoint{goldenEndpoint})
	regions, err3 := appendRegions(nil, []Region{goldenRegion})
	rts, err4 := appendBarrier(nil, "in RTS")
	done, err5 := appendBarrier(nil, "done")
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return [][]byte{hello, endpoints, regions, rts, done}
}

func sessionBytes(t testing.TB) []byte { return bytes.Join(sessionFrames(t), nil) }

// pipe returns two connected Conns over a net.Pipe.
func pipe(t testing.TB, opts Options) (client, server *Conn) {
	a, b := net.Pipe()
	client, server = NewConn(a, opts), NewConn(b, opts)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// loopback returns two Conns connected by TCP.
func loopback(t testing.TB, opts Options) (client, server *Conn) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = Dial(t.Context(), l.Addr().String(), opts)
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// both runs the two sides at the same time.
func both(client, server func() error) (clientErr, serverErr error) {
	var wg sync.WaitGroup
	wg.Go(func() { clientErr = client() })
	wg.Go(func() { serverErr = server() })
	wg.Wait()
	return clientErr, serverErr
}

// noLeaks fails the test if goroutines still run when it ends.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		testkit.Until(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before }, func() string {
			stacks := make([]byte, 1<<16)
			return fmt.Sprintf("%d goroutines before; now:\n%s", before, stacks[:runtime.Stack(stacks, true)])
		})
	})
}

func TestSession(t *testing.T) {
	for name, connect := range map[string]func(testing.TB, Options) (*Conn, *Conn){"pipe": pipe, "loopback": loopback} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			client, server := connect(t, Options{})
			err1, err2 := both(
				func() error { return session(t.Context(), client, RoleClient) },
				func() error { return session(t.Context(), server, RoleServer) },
			)
			if err1 != nil || err2 != nil {
				t.Fatalf("client: %v; server: %v", err1, err2)
			}
		})
	}
}

// TestValuesArrive checks the value that each exchange returns to the peer.
func TestValuesArrive(t *testing.T) {
	client, server := loopback(t, Options{})
	ctx := t.Context()
	second := goldenEndpoint
	second.Index, second.QPN = 5, 0x333
	type seen struct {
		hello     Hello
		endpoints []Endpoint
		regions   []Region
		none      []Region
		note      Note
	}
	var got seen
	err1, err2 := both(func() error {
		if _, err := client.Hello(ctx, goldenHello); err != nil {
			return err
		}
		if _, err := client.ExchangeEndpoints(ctx, []Endpoint{goldenEndpoint, second}); err != nil {
			return err
		}
		if _, err := client.ExchangeRegions(ctx, []Region{goldenRegion}); err != nil {
			return err
		}
		if _, err := client.ExchangeRegions(ctx, nil); err != nil {
			return err
		}
		if err := client.SendNote(ctx, goldenNote); err != nil {
			return err
		}
		return client.Close() // the data that was sent still arrives
	}, func() (err error) {
		if got.hello, err = server.Hello(ctx, Hello{Role: RoleServer}); err != nil {
			return err
		}
		if got.endpoints, err = server.ExchangeEndpoints(ctx, []Endpoint{goldenEndpoint, second}); err != nil {
			return err
		}
		if got.regions, err = server.ExchangeRegions(ctx, nil); err != nil {
			return err
		}
		if got.none, err = server.ExchangeRegions(ctx, nil); err != nil {
			return err
		}
		<-server.Done() // the peer has closed; its note has arrived
		got.note, err = server.RecvNote(ctx, "result")
		return err
	})
	if err1 != nil || err2 != nil {
		t.Fatalf("client: %v; server: %v", err1, err2)
	}
	want := seen{goldenHello, []Endpoint{goldenEndpoint, second}, []Region{goldenRegion}, nil, goldenNote}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// countingConn counts the Writes of one side.
type countingConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

func TestOneWritePerMessage(t *testing.T) {
	a, b := net.Pipe()
	counted := &countingConn{Conn: a}
	client, server := NewConn(counted, Options{}), NewConn(b, Options{})
	defer client.Close()
	defer server.Close()
	ctx := t.Context()
	big := Note{Name: "big", Data: make([]byte, MaxNoteData)}
	err1, err2 := both(func() error {
		if err := session(ctx, client, RoleClient); err != nil {
			return err
		}
		if err := client.SendNote(ctx, big); err != nil {
			return err
		}
		client.Fail("the end", errors.New("of the test"))
		return nil
	}, func() error {
		if err := session(ctx, server, RoleServer); err != nil {
			return err
		}
		_, err := server.RecvNote(ctx, "big")
		return err
	})
	if err1 != nil || err2 != nil {
		t.Fatalf("client: %v; server: %v", err1, err2)
	}
	if got, want := counted.writes.Load(), int32(7); got != want {
		t.Errorf("7 messages took %d writes, want %d", got, want)
	}
}

// byteConn reads and writes one byte at a time.
type byteConn struct{ net.Conn }

func (c byteConn) Read(b []byte) (int, error) { return c.Conn.Read(b[:min(1, len(b))]) }

func (c byteConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = c.Conn.Write(b[n : n+1])
		n += m
	}
	return n, err
}

func TestByteAtATimePeer(t *testing.T) {
	a, b := net.Pipe()
	client, server := NewConn(byteConn{a}, Options{}), NewConn(byteConn{b}, Options{})
	defer client.Close()
	defer server.Close()
	err1, err2 := both(
		func() error { return session(t.Context(), client, RoleClient) },
		func() error { return session(t.Context(), server, RoleServer) },
	)
	if err1 != nil || err2 != nil {
		t.Fatalf("client: %v; server: %v", err1, err2)
	}
}

// TestRawBytes checks that raw bytes arrive unchanged, and that a connection cannot carry
// both raw bytes and messages.
func TestRawBytes(t *testing.T) {
	noLeaks(t)
	client, server := loopback(t, Options{})
	ctx := t.Context()
	if err := client.WriteAll(ctx, "address", []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := server.ReadFull(ctx, "address", buf); n != 10 || err != nil || string(buf) != "0123456789" {
		t.Fatalf("%q, %d, %v", buf, n, err)
	}
	if err := client.Barrier(ctx, "x"); err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("a message after raw bytes: %v", err)
	}
	client.Fail("test", errors.New("not for this peer's eyes"))
	if err := client.WriteAll(ctx, "part", []byte("abc")); err != nil {
		t.Fatal(err)
	}
	client.Close()
	n, err := server.ReadFull(ctx, "the reply", buf)
	if n != 3 || err == nil || !strings.Contains(err.Error(), "after 3 of 10 bytes of the reply") {
		t.Errorf("%d, %v", n, err)
	}
}

// TestObserver checks that each side's Observer is called once per message.
func TestObserver(t *testing.T) {
	var mu sync.Mutex
	var events []Event
	client, server := loopback(t, Options{})
	server.SetObserver(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	err1, err2 := both(
		func() error { return session(t.Context(), client, RoleClient) },
		func() error { return session(t.Context(), server, RoleServer) },
	)
	if err1 != nil || err2 != nil {
		t.Fatalf("client: %v; server: %v", err1, err2)
	}
	client.Fail("RTS", errors.New("test"))
	<-server.Done()
	server.Close()
	count := map[string]int{}
	for _, e := range events {
		way := "received"
		if e.Sent {
			way = "sent"
		}
		count[strings.TrimSpace(way+" "+e.Type.String()+" "+e.Name)]++
		if e.Time.IsZero() || e.Peer != server.RemoteAddr().String() || e.Local != server.LocalAddr().String() || e.Size <= HeaderSize {
			t.Errorf("event %+v", e)
		}
	}
	want := map[string]int{
		"sent hello": 1, "sent endpoints": 1, "sent regions": 1, "sent barrier in RTS": 1, "sent barrier done": 1,
		"received hello": 1, "received endpoints": 1, "received regions": 1, "received barrier in RTS": 1, "received barrier done": 1,
		"received error RTS": 1,
	}
	if !reflect.DeepEqual(count, want) {
		t.Errorf("got %v", count)
	}
}

// TestSetObserverDuringSteps gives the race detector concurrent calls.
func TestSetObserverDuringSteps(t *testing.T) {
	client, server := loopback(t, Options{})
	done := make(chan struct{})
	var setter sync.WaitGroup
	setter.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				client.SetObserver(func(Event) {})
				time.Sleep(time.Microsecond) // a loop would delay the others by 10 ms, with one processor
			}
		}
	})
	for range 100 {
		err1, err2 := both(
			func() error { return client.Barrier(t.Context(), "x") },
			func() error { return server.Barrier(t.Context(), "x") },
		)
		if err1 != nil || err2 != nil {
			t.Fatalf("client: %v; server: %v", err1, err2)
		}
	}
	close(done)
	setter.Wait()
}
