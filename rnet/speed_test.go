// The speed of rnet beside TCP, in one run:
//
//	go test ./rnet -run TestSpeed -v -rnet.speed 200ms
//
// Each row is measured seven times with TCP and with rnet in turn, and the table has the medians. The
// last column is the ratio of the processor times of both ends, which other work on the host changes less.

package rnet

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var speed = flag.Duration("rnet.speed", 0, "measure rnet beside TCP, for that long per measurement")

const speedRounds = 7

// speedRow is what is measured: echoes of a size, or writes of a size.
type speedRow struct {
	name string
	size int
	run  func(c net.Conn, buf []byte, n int) error
	want float64 // least ratio of TCP's time to rnet's, on an idle machine
}

var speedRows = []speedRow{
	{"echo 8 B", 8, echoes, 0.5},
	{"echo 1 KiB", 1 << 10, echoes, 0.45},
	{"echo 16 KiB", 16 << 10, echoes, 0.3},
	{"writes of 1 KiB", 1 << 10, writes, 2},
	{"writes of 64 KiB", 64 << 10, writes, 1.3},
	{"writes of 1 MiB", 1 << 20, writes, 0.8},
}

// echoes writes buf n times, each when the one before has come back. The first byte of a
// conversation says what the other end does.
func echoes(c net.Conn, buf []byte, n int) error {
	for range n {
		if _, err := c.Write(buf); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return err
		}
	}
	return nil
}

// writes writes buf n times and waits until the other end has them all.
func writes(c net.Conn, buf []byte, n int) error {
	for range n {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(c, buf[:1])
	return err
}

// order is what the other end is to do.
type order struct {
	kind    byte // 'e' for echoes, 'w' for writes
	size, n int
}

func (o order) String() string { return fmt.Sprintf("%c %d %d\n", o.kind, o.size, o.n) }

// answer carries out orders until the peer closes.
func answer(c net.Conn) error {
	defer c.Close()
	buf := make([]byte, 1<<20)
	line := make([]byte, 64)
	for {
		if _, err := io.ReadFull(c, line); err != nil {
			return err
		}
		var o order
		if _, err := fmt.Sscanf(string(line), "%c %d %d\n", &o.kind, &o.size, &o.n); err != nil {
			return err
		}
		if o.kind == 'w' {
			for left := o.n * o.size; left > 0; {
				k, err := c.Read(buf[:min(left, len(buf))])
				if err != nil {
					return err
				}
				left -= k
			}
			if _, err := c.Write(buf[:1]); err != nil {
				return err
			}
			continue
		}
		for range o.n {
			if _, err := io.ReadFull(c, buf[:o.size]); err != nil {
				return err
			}
			if _, err := c.Write(buf[:o.size]); err != nil {
				return err
			}
		}
	}
}

// measure returns the time of one operation of a row over c.
func measure(c net.Conn, r speedRow, n int) (time.Duration, error) {
	kind := byte('w')
	if strings.HasPrefix(r.name, "echo") {
		kind = 'e'
	}
	line := make([]byte, 64)
	copy(line, order{kind, r.size, n}.String())
	if _, err := c.Write(line); err != nil {
		return 0, err
	}
	buf := make([]byte, r.size)
	began := time.Now()
	err := r.run(c, buf, n)
	return time.Since(began) / time.Duration(n), err
}

// speedServer is the environment variable that makes the test binary the other process.
const speedServer = "RNET_SPEED_SERVER"

// TestSpeedServer is the other process of TestSpeed.
func TestSpeedServer(t *testing.T) {
	if os.Getenv(speedServer) == "" {
		return // not the other process
	}
	dev, _ := devices(t)
	l, err := (&ListenConfig{Config: Config{Device: dev}}).Listen(t.Context(), network, host+":0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("listening %v %v\n", l.Addr(), tcp.Addr())
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go answer(b)
	_ = answer(a)
	<-a.(*Conn).ended
}

// startSpeedServer starts the other process and returns its addresses.
func startSpeedServer(t *testing.T) (rdma, tcp string, pid int) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSpeedServer$")
	cmd.Env = append(os.Environ(), speedServer+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(line, "listening %s %s", &rdma, &tcp); err != nil {
		t.Fatal(line, err)
	}
	return rdma, tcp, cmd.Process.Pid
}

func TestSpeed(t *testing.T) {
	if *speed == 0 {
		return // see the beginning of this file
	}
	t.Run("one process", func(t *testing.T) {
		client, server := testPair(t, Config{})
		tcpClient, tcpServer := tcpPair(t)
		go answer(server)
		go answer(tcpServer)
		compare(t, tcpClient, client, os.Getpid())
	})
	t.Run("two processes", func(t *testing.T) {
		rdmaAddr, tcpAddr, pid := startSpeedServer(t)
		dev, _ := devices(t)
		c, err := (&Dialer{Config: Config{Device: dev}}).DialContext(t.Context(), network, rdmaAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer end(c.(*Conn))
		tcp, err := net.Dial("tcp", tcpAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		compare(t, tcp, c, os.Getpid(), pid)
	})
}

// processorTime returns the processor time that processes have used.
func processorTime(t *testing.T, pids []int) (sum time.Duration) {
	for _, pid := range pids {
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil { // see clock_getcpuclockid(3)
			t.Fatal(err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum
}

// compare measures all rows and prints the table. pids are the processes of both ends.
func compare(t *testing.T, tcp, rdma net.Conn, pids ...int) {
	t.Logf("%-18s %10s %10s %8s %15s %6s %9s", "", "TCP µs", "rnet µs", "TCP/rnet", "of the rounds", "want", "processor")
	for _, r := range speedRows {
		var times [2][]time.Duration
		var ratios, works []float64
		var counts [2]int
		for i, c := range []net.Conn{tcp, rdma} {
			once, err := measure(c, r, 20)
			if err != nil {
				t.Fatal(r.name, err)
			}
			counts[i] = max(int(*speed/max(once, 1)), 20)
		}
		for range speedRounds {
			var round, work [2]time.Duration
			for i, c := range []net.Conn{tcp, rdma} {
				before := processorTime(t, pids)
				took, err := measure(c, r, counts[i])
				work[i] = (processorTime(t, pids) - before) / time.Duration(counts[i])
				if err != nil {
					t.Fatal(r.name, err)
				}
				round[i] = took
				times[i] = append(times[i], took)
			}
			ratios = append(ratios, float64(round[0])/float64(round[1]))
			works = append(works, float64(work[0])/float64(work[1]))
		}
		slices.Sort(times[0])
		slices.Sort(times[1])
		slices.Sort(ratios)
		slices.Sort(works)
		const middle = speedRounds / 2
		µs := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		t.Logf("%-18s %10.2f %10.2f %8.2f %6.2f to %5.2f %6.2f %9.2f", r.name, µs(times[0][middle]), µs(times[1][middle]),
			ratios[middle], ratios[0], ratios[len(ratios)-1], r.want, works[middle])
	}
}

// tcpPair returns both ends of a TCP connection.
func tcpPair(tb testing.TB) (client, server net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	var dialer net.Dialer
	client, err = dialer.DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}
