// Programs that only move bytes over sockets, the yardsticks of the software device: this program, as a server and as its
// client. The client tells the server over TCP what to do. What they do over UDP is in datagrams_linux.go.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
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

// sockets measures one of the yardsticks:
//
//	datagrams  a stream of datagrams, as the software device sends them
//	blocking   a UDP echo whose ends sleep until a datagram comes
//	near       the same, both ends on one processor
//	polling    a UDP echo whose ends poll for up to 50 µs before they sleep, as the software device does
//	tcp        a stream over TCP
//	tcp-echo   an echo over TCP
type sockets struct{ what string }

func (s sockets) run(ctx context.Context, m measure) (reading, error) {
	number, err := freePort(ctx)
	if err != nil {
		return reading{}, err
	}
	name, err := self()
	if err != nil {
		return reading{}, err
	}
	port := strconv.Itoa(number)
	p := pair{port: number, silent: true, read: readSockets,
		server: []string{name, socketServer, port},
		client: []string{name, socketClient, s.what, strconv.Itoa(m.Size), strconv.Itoa(m.Iters), port}}
	r, err := p.run(ctx, m)
	if s.what == "datagrams" {
		r.CRCs = 2 * crcTime(m.Size)
	}
	return r, err
}

// crcTime returns how long a CRC of a MiB takes, packet by packet over a memory of a size, in microseconds.
func crcTime(size int) float64 {
	memory := make([]byte, max(size, payload))
	least := math.Inf(1)
	var sum uint32
	for range 9 { // other programs may take the processor meanwhile
		began := time.Now()
		for at := range 16 << 20 / payload {
			from := at * payload % (len(memory) &^ (payload - 1))
			sum ^= crc32.ChecksumIEEE(memory[from : from+payload])
		}
		least = min(least, float64(time.Since(began).Nanoseconds())/1e3/16)
	}
	memory[0] = byte(sum) // so that the sums are used
	return least
}

// order is what the client wants from the server, which sends its datagrams to a port of the client.
type order struct {
	What        string
	Size, Iters int
	Port        int
}

// begin prepares an end for the order. The ends of the blocking echo and of TCP run where the kernel puts them.
func (o order) begin(u *datagramSocket, client bool) error {
	u.polls = o.What == "polling"
	switch {
	case o.What == "datagrams" && o.Size%payload != 0:
		return fmt.Errorf("%d bytes are not a multiple of %d, the data of a segment", o.Size, payload)
	case o.What == "datagrams", o.What == "polling":
		return choose(client)
	case o.What == "near":
		return choose(true)
	}
	return nil
}

// serveSockets serves one client.
func serveSockets(ctx context.Context, port string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	u, err := newDatagramSocket(number)
	if err != nil {
		return err
	}
	defer u.Close()
	var plainly net.ListenConfig
	l, err := plainly.Listen(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	var o order
	if _, err := fmt.Fscan(c, &o.What, &o.Size, &o.Iters, &o.Port); err != nil {
		return err
	}
	if err := u.connect(o.Port); err != nil {
		return err
	}
	if err := o.begin(u, false); err != nil {
		return err
	}
	if _, err := c.Write([]byte{0}); err != nil {
		return err
	}
	switch o.What {
	case "datagrams":
		return u.receive(newMemory(o.Size), o.Size/payload*o.Iters)
	case "tcp":
		return sink(c)
	case "tcp-echo":
		return echo(c, o.Size, o.Iters)
	}
	return echo(u, o.Size, o.Iters)
}

// newMemory returns memory whose pages all exist and differ.
func newMemory(size int) []byte {
	memory := make([]byte, size)
	for i := range memory {
		memory[i] = byte(i >> 8)
	}
	return memory
}

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

// echo sends n messages back.
func echo(c io.ReadWriter, size, n int) error {
	message := make([]byte, size)
	for range n {
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		if _, err := c.Write(message); err != nil {
			return err
		}
	}
	return nil
}

// measureSockets is the client. args are: what to measure; the size; the number of messages; the server's port. It prints
// the result for readSockets.
func measureSockets(ctx context.Context, args []string, out io.Writer) error {
	o := order{What: args[0]}
	var server int
	if _, err := fmt.Sscan(args[1]+" "+args[2]+" "+args[3], &o.Size, &o.Iters, &server); err != nil {
		return err
	}
	u, err := newDatagramSocket(0)
	if err != nil {
		return err
	}
	defer u.Close()
	if o.Port, err = u.port(); err != nil {
		return err
	}
	if err := u.connect(server); err != nil {
		return err
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+args[3])
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, o.What, o.Size, o.Iters, o.Port); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // the server is ready
		return err
	}
	if err := o.begin(u, true); err != nil {
		return err
	}
	t := outcome{size: o.Size, iters: o.Iters}
	began := time.Now()
	switch o.What {
	case "datagrams":
		memory := newMemory(o.Size)
		began = time.Now()
		err = u.send(memory, o.Size/payload*o.Iters)
	case "tcp":
		err = stream(c.(*net.TCPConn), newMemory(o.Size), o.Iters)
	case "tcp-echo":
		t.figure, t.p99, err = pingPong(c, o.Size, o.Iters)
	default:
		t.figure, t.p99, err = pingPong(u, o.Size, o.Iters)
	}
	if err != nil {
		return err
	}
	if t.figure == 0 {
		t.figure = float64(o.Size) * float64(o.Iters) / time.Since(began).Seconds()
	}
	_, err = fmt.Fprintln(out, t.size, t.iters, t.figure, t.p99)
	return err
}

// stream sends n messages, until the peer has received all.
func stream(c *net.TCPConn, message []byte, n int) error {
	for range n {
		if _, err := c.Write(message); err != nil {
			return err
		}
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	var got int
	if err := json.NewDecoder(c).Decode(&got); err != nil {
		return err
	}
	if want := len(message) * n; got != want {
		return fmt.Errorf("the server got %d bytes of %d", got, want)
	}
	return nil
}

// pingPong returns half of the median of n round trips and of their 99th percentile in microseconds, as the jobs and
// perftest do.
func pingPong(c io.ReadWriter, size, n int) (typical, p99 float64, err error) {
	message := make([]byte, size)
	times := make([]float64, n)
	last := time.Now()
	for i := range times {
		message[0] = byte(i)
		if _, err := c.Write(message); err != nil {
			return 0, 0, err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return 0, 0, err
		}
		if message[0] != byte(i) {
			return 0, 0, fmt.Errorf("the reply to message %d has other bytes", i)
		}
		now := time.Now()
		times[i] = float64(now.Sub(last).Nanoseconds()) / 2000
		last = now
	}
	slices.Sort(times)
	return times[n/2], times[n*99/100], nil
}

func readSockets(output []byte) (t outcome, err error) {
	_, err = fmt.Sscan(string(output), &t.size, &t.iters, &t.figure, &t.p99)
	return t, err
}
