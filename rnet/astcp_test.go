// Random operations on rnet and on TCP, whose outcomes must be equal:
//
//	go test ./rnet -run AsTCP -rnet.ops 1000000 -rnet.seed 7

package rnet

import (
	"bytes"
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

var (
	randomOps = flag.Int("rnet.ops", 20_000, "operations in TestAsTCP")
	opsSeed   = flag.Uint64("rnet.seed", 1, "seed of TestAsTCP")
)

// twin is a connection over rnet and one over TCP, on which the same is done.
type twin struct {
	ends   [2][2]net.Conn // by transport and end
	unread [2]int         // bytes on the way to an end
	fin    [2]bool        // an end writes no more
}

var transports = [2]string{"TCP", "rnet"}

// TestAsTCP does random operations on both ends of a Conn and of a TCP connection. Their outcomes
// must be equal.
func TestAsTCP(t *testing.T) {
	softtest.Long(t)
	here, there := devices(t)
	tcp, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	rdma, err := (&ListenConfig{Config: Config{Device: there, Ring: minRing}}).Listen(t.Context(), network, host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Close()
	dialer := &Dialer{Config: Config{Device: here, Ring: minRing}}
	connect := func() *twin {
		w := &twin{}
		for i, l := range []net.Listener{tcp, rdma} {
			dial := new(net.Dialer).DialContext
			if i == 1 {
				dial = dialer.DialContext
			}
			for e := range 2 {
				var err error
				if e == 0 {
					w.ends[i][e], err = dial(context.Background(), "tcp", l.Addr().String())
				} else {
					w.ends[i][e], err = l.Accept()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		return w
	}
	r := rand.New(rand.NewPCG(*opsSeed, 0))
	w := connect()
	conns := 1
	for op := range *randomOps {
		closed := w.step(t, r)
		if t.Failed() {
			t.Fatalf("operation %d of seed %d", op, *opsSeed)
		}
		if closed {
			w = connect()
			conns++
		}
	}
	w.close()
	t.Logf("%d operations on %d connections", *randomOps, conns)
}

func (w *twin) close() {
	for _, ends := range w.ends {
		for _, c := range ends {
			c.Close()
		}
	}
	for _, c := range w.ends[1] {
		<-c.(*Conn).ended
	}
}

// step does one operation. It returns true if the connection has come to its end.
func (w *twin) step(t *testing.T, r *rand.Rand) (over bool) {
	const room = 32 << 10 // that both transports have at least
	e := r.IntN(2)
	peer := 1 - e
	switch choice := r.IntN(1000); {
	case choice < 400: // a write
		n := r.IntN(min(3000, room-w.unread[peer]) + 1)
		data := random(n)
		if w.same(t, "write", e, func(c net.Conn) (int, []byte, error) { n, err := c.Write(data); return n, nil, err }) && !w.fin[e] {
			w.unread[peer] += n
		}
	case choice < 800 && w.unread[e] > 0: // a read of bytes that are there
		n := 1 + r.IntN(min(w.unread[e], 5000))
		w.same(t, "read", e, func(c net.Conn) (int, []byte, error) {
			b := make([]byte, n)
			n, err := io.ReadFull(c, b)
			return n, b, err
		})
		w.unread[e] -= n
	case choice < 850: // a read past its deadline
		w.same(t, "late read", e, func(c net.Conn) (int, []byte, error) {
			_ = c.SetReadDeadline(time.Unix(1, 0))
			n, err := c.Read(make([]byte, 10))
			_ = c.SetReadDeadline(time.Time{})
			return n, nil, err
		})
	case choice < 900: // a write past its deadline
		w.same(t, "late write", e, func(c net.Conn) (int, []byte, error) {
			_ = c.SetWriteDeadline(time.Unix(1, 0))
			n, err := c.Write([]byte("late"))
			_ = c.SetWriteDeadline(time.Time{})
			return n, nil, err
		})
	case choice < 950 && w.unread[e] == 0: // a read of nothing: the end, or a deadline
		w.same(t, "read of nothing", e, func(c net.Conn) (int, []byte, error) {
			if !w.fin[peer] {
				_ = c.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
				defer func() { _ = c.SetReadDeadline(time.Time{}) }()
			}
			n, err := c.Read(make([]byte, 10))
			return n, nil, err
		})
	case choice < 998: // a deadline that does not pass
		w.same(t, "deadline", e, func(c net.Conn) (int, []byte, error) { return 0, nil, c.SetDeadline(testkit.Deadline()) })
	case choice < 999 && !w.fin[e]: // a second one is ENOTCONN with TCP if the peer has half-closed too
		type halfCloser interface{ CloseWrite() error }
		w.same(t, "half-close", e, func(c net.Conn) (int, []byte, error) { return 0, nil, c.(halfCloser).CloseWrite() })
		w.fin[e] = true
	case choice == 999:
		w.finish(t, e)
		return true
	}
	return false
}

// finish closes an end that has read everything, reads what is left at the other end, and closes
// that too.
func (w *twin) finish(t *testing.T, e int) {
	peer := 1 - e
	w.same(t, "last reads", e, func(c net.Conn) (int, []byte, error) {
		b := make([]byte, w.unread[e])
		n, err := io.ReadFull(c, b)
		return n, b, err
	})
	w.same(t, "close", e, func(c net.Conn) (int, []byte, error) { return 0, nil, c.Close() })
	for _, op := range []string{"read", "write", "close", "deadline"} {
		w.same(t, op+" after close", e, func(c net.Conn) (int, []byte, error) {
			switch op {
			case "read":
				n, err := c.Read(make([]byte, 1))
				return n, nil, err
			case "write":
				n, err := c.Write([]byte("x"))
				return n, nil, err
			case "close":
				return 0, nil, c.Close()
			}
			return 0, nil, c.SetDeadline(time.Time{})
		})
	}
	w.same(t, "reads to the end", peer, func(c net.Conn) (int, []byte, error) { b, err := io.ReadAll(c); return len(b), b, err })
	w.same(t, "close", peer, func(c net.Conn) (int, []byte, error) { return 0, nil, c.Close() })
	w.close()
}

// same does an operation on an end of both transports and compares the outcomes. It returns true
// if both succeeded.
func (w *twin) same(t *testing.T, name string, e int, op func(net.Conn) (int, []byte, error)) bool {
	var counts [2]int
	var data [2][]byte
	var errs [2]error
	for i := range w.ends {
		counts[i], data[i], errs[i] = op(w.ends[i][e])
	}
	if counts[0] != counts[1] || class(errs[0]) != class(errs[1]) {
		t.Errorf("%s at end %d: %s %d, %v; %s %d, %v", name, e, transports[0], counts[0], errs[0], transports[1], counts[1], errs[1])
	}
	if !bytes.Equal(data[0], data[1]) {
		t.Errorf("%s at end %d: the bytes differ", name, e)
	}
	return errs[0] == nil && errs[1] == nil
}

// class returns what a program can find out about an error.
func class(err error) string {
	for _, known := range []error{net.ErrClosed, os.ErrDeadlineExceeded, syscall.EPIPE, syscall.ECONNRESET, io.EOF} {
		if errors.Is(err, known) {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				return known.Error() + " (timeout)"
			}
			return known.Error()
		}
	}
	if err == nil {
		return ""
	}
	return "another error: " + err.Error()
}
