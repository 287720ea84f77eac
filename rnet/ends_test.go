package rnet

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// small is a Config with the smallest rings, so that they are often full.
var small = Config{Ring: minRing}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// wantError fails the test unless err is a *net.OpError of the operation that matches want.
func wantError(t *testing.T, err error, op string, want error) {
	t.Helper()
	var e *net.OpError
	if !errors.As(err, &e) || e.Op != op || e.Net != network || !errors.Is(err, want) {
		t.Errorf("got %T %v, want %q: %v", err, err, op, want)
	}
}

// wantRead reads everything until io.EOF and compares it.
func wantRead(t *testing.T, r io.Reader, want []byte) {
	t.Helper()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes (%q …), %v; want %d", len(got), got[:min(len(got), 20)], err, len(want))
	}
}

func TestHalfClose(t *testing.T) {
	a, b := testPair(t, small)
	request, reply := random(300_000), random(200_000)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := a.Write(request); err != nil {
			t.Error(err)
		}
		if err := a.CloseWrite(); err != nil {
			t.Error(err)
		}
		_, err := a.Write([]byte("more"))
		wantError(t, err, "write", syscall.EPIPE)
		wantRead(t, a, reply)
	})
	wantRead(t, b, request)
	if _, err := b.Write(reply); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	_, err := a.Read(make([]byte, 1))
	if err != io.EOF {
		t.Errorf("after everything is read: %v, want io.EOF", err)
	}
}

// TestCloseSendsEverything: Close returns at once, and what was written still arrives.
func TestCloseSendsEverything(t *testing.T) {
	a, b := testPair(t, small)
	data := random(50_000)
	if _, err := a.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, a.Close(), "close", net.ErrClosed)
	_, err := a.Write(data)
	wantError(t, err, "write", net.ErrClosed)
	_, err = a.Read(data[:1])
	wantError(t, err, "read", net.ErrClosed)
	wantError(t, a.SetDeadline(time.Time{}), "set", net.ErrClosed)
	wantError(t, a.CloseRead(), "close", net.ErrClosed)
	wantError(t, a.CloseWrite(), "close", net.ErrClosed)
	wantError(t, a.SetLinger(0), "set", net.ErrClosed)
	<-a.ended
	wantRead(t, b, data)
	testkit.Until(t, "error of a write to a closed peer", func() bool { _, err = b.Write(data); return err != nil })
	wantError(t, err, "write", syscall.EPIPE)
}

// TestFlush returns when the peer's device has everything, although nobody reads it.
func TestFlush(t *testing.T) {
	a, b := testPair(t, small)
	if _, err := a.Write(random(minRing)); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(); err != nil {
		t.Error(err)
	}
	testkit.Until(t, "arrival of the whole ring", func() bool { b.await1(); return b.Stats().UnreadBytes == minRing })
	done := make(chan error, 1)
	go func() { _, err := a.Write(random(1)); done <- err }() // holds the lock of writes
	a.awaitWaiter(t, &a.writer)
	if err := a.SetWriteDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	wantError(t, testkit.Receive(t, done, "end of a write past its deadline"), "write", os.ErrDeadlineExceeded)
	if err := a.Flush(); err != nil { // nothing is on the way
		t.Error(err)
	}
	a.Close()
	if err := a.Flush(); err != nil {
		wantError(t, err, "write", net.ErrClosed)
	}
}

// TestReset: a Close with unread bytes, or after SetLinger(0), resets the peer.
func TestReset(t *testing.T) {
	for name, prepare := range map[string]func(a, b *Conn) error{
		"unread bytes": func(a, b *Conn) error {
			if _, err := b.Write([]byte("unread")); err != nil {
				return err
			}
			testkit.Until(t, "arrival", func() bool { a.await1(); return a.Stats().UnreadBytes > 0 })
			return nil
		},
		"linger 0": func(a, _ *Conn) error { return a.SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := testPair(t, small)
			if err := prepare(a, b); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			_, err := b.Read(make([]byte, 1))
			wantError(t, err, "read", syscall.ECONNRESET)
			_, err = b.Write([]byte("x"))
			wantError(t, err, "write", syscall.ECONNRESET)
		})
	}
}

// await1 makes the Conn look at its completions.
func (c *Conn) await1() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.completions.Sweep()
}

// awaitWaiter waits until a goroutine waits at w, and nothing is on its way to the peer.
func (c *Conn) awaitWaiter(t *testing.T, w *waiter) {
	t.Helper()
	testkit.Until(t, "waiting goroutine", func() bool {
		c.turn.Lock()
		defer c.turn.Unlock()
		return (c.turn.Works(w.Waiter) || w.Asleep()) && c.onTheWay == 0
	})
}

// TestCloseRead: what arrives is dropped, so the peer never waits.
func TestCloseRead(t *testing.T) {
	a, b := testPair(t, small)
	if _, err := b.Write([]byte("dropped")); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseRead(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Read(make([]byte, 9)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	if err := b.SetWriteDeadline(testkit.Deadline()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(random(20 * minRing)); err != nil {
		t.Error(err)
	}
	if _, err := a.Write([]byte("still")); err != nil {
		t.Error(err)
	}
	a.Close()
	wantRead(t, b, []byte("still"))
}

// TestCloseWakes: Close and CloseRead and CloseWrite wake the calls that wait.
func TestCloseWakes(t *testing.T) {
	a, b := testPair(t, small)
	blocked := func(w *waiter, call func() error) chan error {
		done := make(chan error, 1)
		go func() { done <- call() }()
		a.awaitWaiter(t, w)
		return done
	}
	read := func() error { _, err := a.Read(make([]byte, 1)); return err }
	write := func() error { _, err := a.Write(random(4 * minRing)); return err }
	done := blocked(&a.writer, write)
	if err := a.CloseWrite(); err != nil {
		t.Error(err)
	}
	wantError(t, testkit.Receive(t, done, "end of the write"), "write", syscall.EPIPE)
	done = blocked(&a.reader, read)
	if err := a.CloseRead(); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, done, "end of the read"); err != io.EOF {
		t.Error(err)
	}
	go func() { _, err := b.Write(random(4 * minRing)); done <- err }()
	time.Sleep(testkit.Moment)
	b.Close()
	if err := testkit.Receive(t, done, "end of the peer's write"); err != nil { // a drops everything, so it may have been written
		wantError(t, err, "write", net.ErrClosed)
	}
}

// TestSlowReader: the writer waits when the ring is full, and goes on when there is room.
func TestSlowReader(t *testing.T) {
	a, b := testPair(t, small)
	data := random(5 * minRing)
	var n int
	done := make(chan error, 1)
	go func() {
		var err error
		n, err = a.Write(data)
		done <- err
	}()
	a.awaitWaiter(t, &a.writer)
	if err := a.SetWriteDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	err := testkit.Receive(t, done, "end of a write past its deadline")
	wantError(t, err, "write", os.ErrDeadlineExceeded)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || n != minRing {
		t.Errorf("wrote %d bytes, %v; want the length of the ring, and a timeout", n, err)
	}
	if s := a.Stats(); s.WaitsForSpace != 1 || s.PostedBytes != minRing || s.RingSize != minRing || s.BytesWritten != minRing {
		t.Errorf("%+v", s)
	}
	if err := a.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := a.Write(data[n:]); err != nil {
			t.Error(err)
		}
		a.Close()
	}()
	wantRead(t, b, data)
}

// TestNobodyReads: small writes without a reader at the peer stop when the receives or the ring are
// used up, and everything arrives later.
func TestNobodyReads(t *testing.T) {
	a, b := testPair(t, small)
	var sent []byte
	done := make(chan error, 1)
	go func() {
		for {
			record := []byte{byte(len(sent)), 1, 2}
			n, err := a.Write(record)
			sent = append(sent, record[:n]...)
			if err != nil || len(sent) > 2*minRing {
				done <- err
				return
			}
		}
	}()
	testkit.Until(t, "full ring", func() bool { return a.Stats().PostedBytes == minRing || len(done) > 0 })
	_ = a.SetWriteDeadline(time.Now())
	wantError(t, testkit.Receive(t, done, "end of the writes"), "write", os.ErrDeadlineExceeded)
	if len(sent) != minRing {
		t.Errorf("%d bytes were written without a reader, want %d", len(sent), minRing)
	}
	_ = a.SetWriteDeadline(time.Time{})
	a.Close()
	wantRead(t, b, sent)
}

// TestCopies: WriteTo, ReadFrom and WriteBuffers carry all bytes.
func TestCopies(t *testing.T) {
	a, b := testPair(t, small)
	data := random(10*minRing + 7)
	var got bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := io.Copy(&got, b); n != int64(2*len(data)) || err != nil {
			t.Errorf("WriteTo: %d, %v", n, err)
		}
	})
	if n, err := io.Copy(a, struct{ io.Reader }{bytes.NewReader(data)}); n != int64(len(data)) || err != nil {
		t.Errorf("ReadFrom: %d, %v", n, err)
	}
	var bufs net.Buffers
	for rest := data; len(rest) > 0; {
		k := min(len(rest), 1+len(bufs)*37)
		bufs, rest = append(bufs, rest[:k]), rest[k:]
	}
	if n, err := a.WriteBuffers(&bufs); n != int64(len(data)) || err != nil || len(bufs) != 0 {
		t.Errorf("WriteBuffers: %d, %v, %d buffers are left", n, err, len(bufs))
	}
	a.Close()
	wg.Wait()
	if !bytes.Equal(got.Bytes(), append(bytes.Clone(data), data...)) {
		t.Error("the bytes differ")
	}
}

// TestWriteBuffersJoins: many small buffers leave in few messages.
func TestWriteBuffersJoins(t *testing.T) {
	a, b := testPair(t, Config{})
	bufs := make(net.Buffers, 100)
	for i := range bufs {
		bufs[i] = random(100)
	}
	want := bytes.Join(bufs, nil)
	if _, err := a.WriteBuffers(&bufs); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, want) {
		t.Error(err)
	}
	messages := uint64(1)
	if a.rc.Device().Run(4096) > 0 { // one per packet of a run
		messages = 3
	}
	if n := b.Stats().MessagesReceived; n != messages {
		t.Errorf("100 buffers came in %d messages, want %d", n, messages)
	}
}

// failing returns bytes once and then an error.
type failing struct{ err error }

func (f *failing) Read(b []byte) (int, error)  { return copy(b, "some"), f.err }
func (f *failing) Write(b []byte) (int, error) { return min(2, len(b)), f.err }

// TestCopyErrors: the errors of the other side of a copy come back unchanged, with the counts.
func TestCopyErrors(t *testing.T) {
	a, b := testPair(t, small)
	broken := &failing{errors.New("broken")}
	if n, err := a.ReadFrom(broken); n != 4 || err != broken.err {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := b.WriteTo(broken); n != 2 || err != broken.err {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := a.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.WriteTo(&failing{io.EOF}); n != 2 || err != io.EOF { // not the end of the peer's bytes
		t.Errorf("%d, %v", n, err)
	}
	if _, err := a.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.WriteTo(short{}); n != 1 || err != io.ErrShortWrite {
		t.Errorf("%d, %v", n, err)
	}
}

func TestAddresses(t *testing.T) {
	a, b := testPair(t, small)
	for _, end := range []struct{ local, remote net.Addr }{{a.LocalAddr(), b.RemoteAddr()}, {b.LocalAddr(), a.RemoteAddr()}} {
		local, remote := end.local.(*Addr), end.remote.(*Addr)
		if local.String() != remote.String() || local.QPN != remote.QPN || local.GID != remote.GID || local.Device == "" {
			t.Errorf("%+v, and the peer sees %+v", local, remote)
		}
		if h, _, err := net.SplitHostPort(local.String()); h != host || err != nil || local.Network() != "rdma" {
			t.Errorf("%v, %v", local, err)
		}
	}
	_, err := a.Write(nil)
	if err != nil {
		t.Errorf("a write of nothing: %v", err)
	}
	a.Close()
	_, err = a.Write([]byte("x"))
	if want := "write rdma " + a.LocalAddr().String() + "->" + b.LocalAddr().String(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s …", err, want)
	}
}

// TestKeepAlive: an idle Conn sends probes, and the peer's program does not notice.
func TestKeepAlive(t *testing.T) {
	a, b := testPair(t, Config{Ring: minRing, KeepAlive: 5 * time.Millisecond})
	probed := func() bool {
		a.turn.Lock()
		defer a.turn.Unlock()
		return a.alive.sent >= 3 && !a.alive.probing && a.err == nil
	}
	testkit.Until(t, "three probes", probed)
	if s := b.Stats(); s.ReportsReceived+s.MessagesReceived != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := a.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := b.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestConnState: the hook gets both ends' openings and closings, and counts that do not change any
// more.
func TestConnState(t *testing.T) {
	var mu sync.Mutex
	var events []string
	var read, written uint64
	cfg := Config{Ring: minRing, ConnState: func(c *Conn, s ConnState) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, s.String())
		if s == StateClosed {
			read += c.Stats().BytesRead
			written += c.Stats().BytesWritten
		}
	}}
	a, b := testPair(t, cfg)
	if _, err := a.Write(random(1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	end(a)
	end(b)
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(events, " "); got != "open open closed closed" || read != 1000 || written != 1000 {
		t.Errorf("%s; %d bytes read, %d written", got, read, written)
	}
}

// short takes one byte less than it gets, or one.
type short struct{}

func (short) Write(b []byte) (int, error) { return 1, nil }

// TestIdleCopyHasNoBuffer: a program may copy from many Conns that are idle.
func TestIdleCopyHasNoBuffer(t *testing.T) {
	a, b := testPair(t, small)
	before := copyBuffers.New
	defer func() { copyBuffers = sync.Pool{New: before} }()
	var taken atomic.Int32
	copyBuffers = sync.Pool{New: func() any { taken.Add(1); return before() }}
	done := make(chan error, 1)
	go func() {
		_, err := b.WriteTo(io.Discard)
		done <- err
	}()
	b.awaitWaiter(t, &b.reader)
	if n := taken.Load(); n != 0 {
		t.Errorf("%d buffers while the Conn is idle", n)
	}
	if _, err := a.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if err := <-done; err != nil || taken.Load() == 0 {
		t.Errorf("%v, %d buffers", err, taken.Load())
	}
}
