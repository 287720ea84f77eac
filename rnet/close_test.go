package rnet

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// Functions as readers and writers.
type (
	readFunc  func([]byte) (int, error)
	writeFunc func([]byte) (int, error)
)

func (f readFunc) Read(b []byte) (int, error)   { return f(b) }
func (f writeFunc) Write(b []byte) (int, error) { return f(b) }

// exitAddress tells TestExitAfterClose in a child where to connect.
const exitAddress = "RNET_TEST_EXIT"

// TestExitAfterClose: what Write has taken arrives, although the process ends right after Close.
func TestExitAfterClose(t *testing.T) {
	data := bytes.Repeat([]byte("data "), 60_000)
	if address := os.Getenv(exitAddress); address != "" {
		dev, _ := devices(t)
		c, err := (&Dialer{Config: Config{Device: dev}}).DialContext(t.Context(), network, address)
		if err == nil {
			_, err = c.Write(data)
		}
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		os.Exit(0)
	}
	for range 10 {
		_, dev := devices(t)
		l, err := (&ListenConfig{Config: Config{Device: dev}}).Listen(t.Context(), network, host+":0")
		if err != nil {
			t.Fatal(err)
		}
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestExitAfterClose$")
		child.Env = append(os.Environ(), exitAddress+"="+l.Addr().String())
		var output bytes.Buffer
		child.Stdout, child.Stderr = &output, &output
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		_ = l.(*Listener).SetDeadline(testkit.Deadline())
		c, err := l.Accept()
		if err != nil {
			_ = child.Process.Kill()
			t.Fatalf("%v, %v; %s", err, child.Wait(), &output)
		}
		_ = c.SetDeadline(testkit.Deadline())
		if got, err := io.ReadAll(c); !bytes.Equal(got, data) || err != nil {
			t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
		}
		if err := child.Wait(); err != nil {
			t.Errorf("%v; %s", err, &output)
		}
		end(c.(*Conn))
		l.Close()
		<-l.(*Listener).ended
	}
}

// TestCloseWithBytesUnseen: bytes that have arrived and that no Read has seen are unread too.
func TestCloseWithBytesUnseen(t *testing.T) {
	testkit.Until(t, "reset", func() bool {
		a, b := testPair(t, small)
		if _, err := a.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(testkit.Moment) // the completion follows the ACK: so it may arrive after Close
		b.Close()
		_, err := a.Read(make([]byte, 1))
		if err == io.EOF {
			return false
		}
		wantError(t, err, "read", syscall.ECONNRESET)
		return true
	})
}

// TestCloseAfterSmallMessages: many small messages use up the peer's receives. The rest still arrives after
// Close, while the peer's program reads nothing.
func TestCloseAfterSmallMessages(t *testing.T) {
	a, b := testPair(t, Config{Linger: time.Hour})
	var sent bytes.Buffer
	posted := true
	for i := 0; posted; i++ {
		sent.WriteByte(byte(i))
		if _, err := a.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "acknowledgement", func() bool {
			a.await1()
			a.turn.Lock()
			defer a.turn.Unlock()
			posted = a.flow.posted == a.flow.written // else the peer's receives are used up
			return a.onTheWay == 0
		})
	}
	if sent.Len() < 400 {
		t.Errorf("Flush waits after %d messages", sent.Len())
	}
	_ = a.SetWriteDeadline(time.Now())
	wantError(t, a.Flush(), "write", os.ErrDeadlineExceeded)
	_ = a.SetWriteDeadline(time.Time{})
	rest := random(defaultRing / 2)
	sent.Write(rest)
	if _, err := a.Write(rest); err != nil {
		t.Fatal(err)
	}
	a.Close()
	testkit.Receive(t, a.ended, "end of a Conn whose peer's program does not read")
	if got, err := io.ReadAll(b); !bytes.Equal(got, sent.Bytes()) || err != nil {
		t.Errorf("%d of %d bytes, %v", len(got), sent.Len(), err)
	}
}

// TestCloseDuringWriteTo: a proxy closes a Conn while its other goroutine still writes what it has read
// there. The peer gets the answer and EOF, and no reset.
func TestCloseDuringWriteTo(t *testing.T) {
	a, b := testPair(t, small)
	if _, err := b.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	in, out, over := make(chan bool), make(chan bool), make(chan error)
	go func() {
		_, err := io.Copy(writeFunc(func(p []byte) (int, error) { in <- true; <-out; return len(p), nil }), a)
		over <- err
	}()
	<-in
	if _, err := a.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if got, err := io.ReadAll(b); string(got) != "answer" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	out <- true
	if err := <-over; err == nil {
		t.Error("the copy from a closed Conn succeeds")
	}
}

// TestCloseReadDuringRead: space of the ring that Read is copying from is not free for the peer yet.
func TestCloseReadDuringRead(t *testing.T) {
	a, b := testPair(t, small)
	if _, err := b.Write(random(minRing)); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); err != nil { // so that all are taken
		t.Fatal(err)
	}
	a.turn.Lock()
	a.lent = 5000 // as Read does before it copies
	before := a.flow.consumed
	a.turn.Unlock()
	if err := a.CloseRead(); err != nil {
		t.Fatal(err)
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	if a.flow.consumed != before {
		t.Errorf("%d bytes are free that are being copied", a.flow.consumed-before)
	}
	a.lent = 0
	a.read(5000)
	if a.flow.consumed != a.flow.arrived {
		t.Errorf("%d bytes stay unread after CloseRead", a.flow.arrived-a.flow.consumed)
	}
}

// TestPanicsOfCallers: a panic of a reader or a writer leaves a Conn that works.
func TestPanicsOfCallers(t *testing.T) {
	a, b := testPair(t, small)
	panics := func(what string, f func()) {
		defer func() {
			if got := recover(); got != "the caller's" {
				t.Errorf("%s: recovered %v", what, got)
			}
		}()
		f()
	}
	panics("ReadFrom", func() { _, _ = a.ReadFrom(readFunc(func([]byte) (int, error) { panic("the caller's") })) })
	if _, err := a.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	panics("WriteTo", func() { _, _ = b.WriteTo(writeFunc(func([]byte) (int, error) { panic("the caller's") })) })
	if _, err := a.Write([]byte("second")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	wantRead(t, b, []byte("second"))
}

// TestWriteToIsACopy: a hostile peer that changes its bytes in the ring does not change them between two
// writers of one copy.
func TestWriteToIsACopy(t *testing.T) {
	l, dev := victims(t)
	h, victim := l.attacked(t, dev)
	copy(h.mr.Bytes(), "evil!")
	if err := h.write(0, 5, arrival{length: 5}.imm()); err != nil {
		t.Fatal(err)
	}
	if err := h.write(0, 0, arrival{control: true, fin: true}.imm()); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	slow := writeFunc(func(p []byte) (int, error) {
		n, err := first.Write(p)
		copy(h.mr.Bytes(), "good!")
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{h.mr.SGE(0, 5)}, RemoteAddr: h.ring.Addr, RKey: h.ring.RKey}
		if _, err := h.Do(t.Context(), &wr); err != nil {
			t.Error(err)
		}
		return n, err
	})
	if n, err := io.Copy(io.MultiWriter(slow, &second), victim); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if first.String() != "evil!" || second.String() != "evil!" {
		t.Errorf("the writers got %q and %q", &first, &second)
	}
}

// TestZeroLength: calls without bytes do not wait, and tell of a closed Conn, as TCP's.
func TestZeroLength(t *testing.T) {
	a, b := testPair(t, small)
	if _, err := a.Write(random(minRing)); err != nil { // the ring is full
		t.Fatal(err)
	}
	_ = a.SetDeadline(testkit.Deadline())
	if n, err := a.Write(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	b.Close()
	for what, call := range map[string]func([]byte) (int, error){"Read": b.Read, "Write": b.Write} {
		if n, err := call(nil); n != 0 || !isClosed(err) {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
}

func isClosed(err error) bool {
	op, ok := err.(*net.OpError)
	return ok && op.Err == net.ErrClosed
}

// TestCloseOfNothing: the error is that of package net.
func TestCloseOfNothing(t *testing.T) {
	for _, object := range []io.Closer{(*Conn)(nil), (*Listener)(nil), new(Conn), new(Listener)} {
		if err := object.Close(); err != syscall.EINVAL {
			t.Errorf("%T: %v", object, err)
		}
	}
}
