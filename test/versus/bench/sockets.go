// Plain sockets as a yardstick: a stream of messages over TCP, and a ping-pong over TCP or
// UDP, between two processes.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"
)

// The arguments that make this program the server or the client.
const (
	socketServer = "sockets-server"
	socketClient = "sockets-client"
)

// sockets measures plain sockets. network is tcp or udp.
type sockets struct{ network string }

func (s sockets) run(ctx context.Context, m measure) (float64, error) {
	number, err := freePort(ctx)
	if err != nil {
		return 0, err
	}
	name, err := self()
	if err != nil {
		return 0, err
	}
	port := strconv.Itoa(number)
	what := s.network
	if m.latency() {
		what += "-lat"
	}
	p := pair{port: number, silent: true, read: readSockets,
		server: []string{name, socketServer, port},
		client: []string{name, socketClient, what, strconv.Itoa(m.Size), strconv.Itoa(m.Iters), port}}
	return p.run(ctx, m)
}

// serveSockets serves one client. The client selects the test with three bytes over TCP.
func serveSockets(ctx context.Context, port string) error {
	var plainly net.ListenConfig
	l, err := plainly.Listen(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	defer l.Close()
	udp, err := plainly.ListenPacket(ctx, "udp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	defer udp.Close()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	var header [3]byte // "udp" or "lat"; anything else selects sink
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return err
	}
	switch string(header[:]) {
	case "udp":
		return echoUDP(udp.(*net.UDPConn), c)
	case "lat":
		_, err = io.CopyBuffer(plain{c}, plain{c}, make([]byte, 64<<10))
		return err
	}
	return sink(c)
}

// plain hides the faster copy methods of a connection, so that only Read and Write are used.
type plain struct{ io.ReadWriter }

// sink reads until the peer closes its side for writing, then sends back the number of
// bytes.
func sink(c net.Conn) error {
	buf := make([]byte, 1<<20)
	for total := int64(0); ; {
		n, err := c.Read(buf)
		total += int64(n)
		if errors.Is(err, io.EOF) {
			return json.NewEncoder(c).Encode(total)
		}
		if err != nil {
			return err
		}
	}
}

// echoUDP sends each datagram back until the client closes its TCP connection.
func echoUDP(u *net.UDPConn, c net.Conn) error {
	go func() {
		_, _ = c.Read(make([]byte, 1))
		u.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, from, err := u.ReadFromUDPAddrPort(buf)
		if err != nil {
			return nil //nolint:nilerr // closed above
		}
		if _, err := u.WriteToUDPAddrPort(buf[:n], from); err != nil {
			return err
		}
	}
}

// measureSockets is the client. args are: tcp, tcp-lat or udp-lat; the size; the number of
// messages; the port. It prints the result for readSockets.
func measureSockets(ctx context.Context, args []string, out io.Writer) error {
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	server := "127.0.0.1:" + args[3]
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer c.Close()
	t := outcome{size: size, iters: n}
	switch args[0] {
	case "tcp":
		t.figure, err = stream(c.(*net.TCPConn), size, n)
	case "tcp-lat":
		if _, err = io.WriteString(c, "lat"); err == nil {
			t.figure, err = pingPong(c, size, n)
		}
	case "udp-lat":
		var u net.Conn
		if _, err = io.WriteString(c, "udp"); err != nil {
			return err
		}
		if u, err = dialer.DialContext(ctx, "udp", server); err != nil {
			return err
		}
		defer u.Close()
		t.figure, err = pingPong(u, size, n)
	default:
		return fmt.Errorf("sockets have no test %q", args[0])
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, t.size, t.iters, t.figure)
	return err
}

// stream returns the bytes per second of n messages, until the peer has received all.
func stream(c *net.TCPConn, size, n int) (float64, error) {
	if _, err := io.WriteString(c, "all"); err != nil {
		return 0, err
	}
	message := make([]byte, size)
	began := time.Now()
	for range n {
		if _, err := c.Write(message); err != nil {
			return 0, err
		}
	}
	if err := c.CloseWrite(); err != nil {
		return 0, err
	}
	var got int64
	if err := json.NewDecoder(c).Decode(&got); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if want := int64(size) * int64(n); got != want {
		return 0, fmt.Errorf("the server got %d bytes of %d", got, want)
	}
	return float64(got) / took.Seconds(), nil
}

// pingPong returns half of the median of n round trips in microseconds, as the jobs and
// perftest do.
func pingPong(c net.Conn, size, n int) (float64, error) {
	if err := c.SetDeadline(time.Now().Add(turnLimit)); err != nil { // UDP may lose a datagram
		return 0, err
	}
	message := make([]byte, size)
	times := make([]float64, n)
	last := time.Now()
	for i := range times {
		message[0] = byte(i)
		if _, err := c.Write(message); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return 0, err
		}
		if message[0] != byte(i) {
			return 0, fmt.Errorf("the reply to message %d has other bytes", i)
		}
		now := time.Now()
		times[i] = float64(now.Sub(last).Nanoseconds()) / 2000
		last = now
	}
	slices.Sort(times)
	return times[n/2], nil
}

func readSockets(output []byte) (t outcome, err error) {
	_, err = fmt.Sscan(string(output), &t.size, &t.iters, &t.figure)
	return t, err
}
