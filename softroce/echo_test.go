// Ping-pongs: the device's round trips beside those of plain sockets.

package softroce_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// BenchmarkRoundTrip compares an 8-byte SEND and its reply with a datagram and its echo over
// plain UDP sockets.
func BenchmarkRoundTrip(b *testing.B) {
	const trips = 1000
	ctx := context.Background()
	x, y := openSoft(b, "soft0"), openSoft(b, "soft0")
	c, s := connect(b, x, y, rc.Config{})
	ping, pong := newPinger(b, c, 8), newPinger(b, s, 8)
	go pong.echo(ctx)
	udp, buf := udpEcho(b), make([]byte, 8)
	against(b, [2]string{"SEND", "UDP"}, "trips/s", trips, [2]func(){
		repeat(b, trips, func() error { return ping.trip(ctx) }),
		repeat(b, trips, func() error { return echoed(udp, buf) }),
	})
}

// BenchmarkRoundTripSpinning is BenchmarkRoundTrip with both ends polling.
func BenchmarkRoundTripSpinning(b *testing.B) {
	const trips = 1000
	ctx := context.Background()
	c, s := connect(b, openSoft(b, "soft0"), openSoft(b, "soft0"), rc.Config{})
	ping, pong := newPinger(b, c, 8), newPinger(b, s, 8)
	ping.spin, pong.spin = time.Minute, time.Millisecond
	go pong.echo(ctx)
	udp, buf := udpEcho(b), make([]byte, 8)
	against(b, [2]string{"SEND", "UDP"}, "trips/s", trips, [2]func(){
		repeat(b, trips, func() error { return ping.trip(ctx) }),
		repeat(b, trips, func() error { return echoed(udp, buf) }),
	})
}

// echo answers until the connection fails.
func (p *pinger) echo(ctx context.Context) {
	for p.recv(ctx) == nil && p.send() == nil {
	}
}

// BenchmarkEcho compares a SEND and its reply of the same size with a write over TCP and its echo.
// The ratio is TCP's time to SEND's.
func BenchmarkEcho(b *testing.B) {
	const trips = 500
	ctx := context.Background()
	for _, kib := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			size := kib << 10
			c, s := connect(b, openSoft(b, "soft0"), openSoft(b, "soft0"), rc.Config{})
			ping, pong := newPinger(b, c, size), newPinger(b, s, size)
			go pong.echo(ctx)
			tcp, buf := tcpEcho(b, size), make([]byte, size)
			against(b, [2]string{"SEND", "TCP"}, "trips/s", trips, [2]func(){
				repeat(b, trips, func() error { return ping.trip(ctx) }),
				repeat(b, trips, func() error { return echoed(tcp, buf) }),
			})
		})
	}
}

// repeat returns a function that calls trip n times.
func repeat(tb testing.TB, n int, trip func() error) func() {
	return func() {
		for range n {
			if err := trip(); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// echoed writes buf and reads its echo.
func echoed(c net.Conn, buf []byte) error {
	if _, err := c.Write(buf); err != nil {
		return err
	}
	_, err := io.ReadFull(c, buf)
	return err
}

// tcpEcho returns a TCP connection whose other end echoes messages of a size.
func tcpEcho(tb testing.TB, size int) net.Conn {
	return tcpTo(tb, func(c net.Conn) {
		for buf := make([]byte, size); ; {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	})
}

// pinger is one end of a ping-pong with messages of one size. It has one receive posted, and signals every eighth send
// so that the queue does not fill.
type pinger struct {
	conn  *rc.Conn
	send_ []verbs.SendWR
	recv_ []verbs.RecvWR
	wcs   []verbs.WC
	sent  int
	spin  time.Duration
}

func newPinger(tb testing.TB, c *rc.Conn, size int) *pinger {
	mr, err := c.AllocMR("ping", 2*size, verbs.AccessLocalWrite)
	if err != nil {
		tb.Fatal(err)
	}
	p := &pinger{conn: c, wcs: make([]verbs.WC, 8),
		send_: []verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, size)}}},
		recv_: []verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(size, size)}}}}
	if err := c.QP().PostRecv(p.recv_); err != nil {
		tb.Fatal(err)
	}
	return p
}

func (p *pinger) send() error {
	p.sent++
	p.send_[0].Flags = 0
	if p.sent%8 == 0 {
		p.send_[0].Flags = verbs.SendSignaled
		if _, err := p.conn.QP().SendCQ().Poll(p.wcs); err != nil {
			return err
		}
	}
	return p.conn.QP().PostSend(p.send_)
}

func (p *pinger) recv(ctx context.Context) error {
	n, err := p.conn.QP().RecvCQ().WaitFor(ctx, p.wcs, verbs.WaitOptions{Spin: p.spin})
	if err != nil {
		return err
	}
	if err := p.wcs[n-1].Err(); err != nil {
		return err
	}
	return p.conn.QP().PostRecv(p.recv_)
}

// trip sends a message and waits for its reply.
func (p *pinger) trip(ctx context.Context) error {
	if err := p.send(); err != nil {
		return err
	}
	return p.recv(ctx)
}

func udpEcho(tb testing.TB) net.Conn {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		buf := make([]byte, 64)
		u := server.(*net.UDPConn)
		for {
			n, from, err := u.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if _, err := u.WriteToUDPAddrPort(buf[:n], from); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close(); server.Close() })
	return c
}
