package rnet

import (
	"bytes"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
)

var manyConns = flag.Int("rnet.conns", 100, "Conns at once in TestManyConns")

// allocations returns the allocations per call of f, in the whole process.
func allocations(calls int, f func()) float64 {
	for range 100 {
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(calls)
}

// TestNoAllocation: echoes, streams with and without a waiting reader, and deadlines that do not pass
// allocate nothing in the steady state.
func TestNoAllocation(t *testing.T) {
	const some = 0.4 // the runtime's own goroutines allocate now and then, more on a busy host
	for name, size := range map[string]int{"8 B": 8, "16 KiB": 16 << 10} {
		t.Run("echo "+name, func(t *testing.T) {
			a, b := testPair(t, Config{})
			go func() {
				buf := make([]byte, size)
				for {
					if _, err := io.ReadFull(b, buf); err != nil {
						return
					}
					if _, err := b.Write(buf); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, size)
			n := allocations(1000, func() {
				if err := echoes(a, size, 1); err != nil {
					t.Fatal(err)
				}
			})
			if n -= 1; n > some { // the buffer of echoes
				t.Errorf("%.2f allocations per echo", n)
			}
			n = allocations(1000, func() {
				_ = a.SetReadDeadline(time.Now().Add(time.Hour))
				_, _ = a.Write(buf)
				_, _ = io.ReadFull(a, buf)
			})
			if n > some {
				t.Errorf("%.2f allocations per echo with a deadline", n)
			}
		})
	}
	for name, size := range map[string]int{"100 B": 100, "64 KiB": 64 << 10} {
		t.Run("stream "+name, func(t *testing.T) {
			a, b := testPair(t, Config{})
			go func() {
				buf := make([]byte, 64<<10)
				for {
					if _, err := b.Read(buf); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, size)
			if n := allocations(500, func() { _, _ = a.Write(buf) }); n > some {
				t.Errorf("%.2f allocations per write", n)
			}
		})
	}
}

// TestManyConns has many Conns at once, on one device per end, and moves data on all of them.
func TestManyConns(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range *manyConns {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			wg.Go(func() {
				if n, err := io.Copy(c, c); err != nil {
					t.Errorf("after %d bytes: %v", n, err)
				}
				end(c.(*Conn))
			})
		}
	})
	conns := make([]*Conn, *manyConns)
	var dialing sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range conns {
		dialing.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			c, err := d.DialContext(t.Context(), network, l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c.(*Conn)
		})
	}
	dialing.Wait()
	if t.Failed() {
		l.Close()
		wg.Wait()
		return
	}
	for _, c := range conns {
		wg.Go(func() {
			data := random(20_000)
			go func() {
				if _, err := c.Write(data); err != nil {
					t.Error(err)
				}
				_ = c.CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
			end(c)
		})
	}
	wg.Wait()
}

// victimOf is the environment variable that makes the test binary the process that TestKilledPeer
// kills. It has the addresses of a listener and of a TCP listener to connect to.
const victimOf = "RNET_VICTIM_OF"

// TestVictim is the process that TestKilledPeer kills.
func TestVictim(t *testing.T) {
	address, control, ok := strings.Cut(os.Getenv(victimOf), " ")
	if !ok {
		return // not that process
	}
	tcp, err := net.Dial("tcp", control)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	dev, _ := devices(t)
	c, err := (&Dialer{Config: Config{Device: dev}}).DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("here")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// TestKilledPeer: a read and a write that wait end with ECONNRESET within a second after the peer is
// killed. The second counts from the end of a TCP connection of that process, because a busy host may
// need longer to end it.
func TestKilledPeer(t *testing.T) {
	l, _ := listen(t, ListenConfig{})
	control, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$")
	cmd.Env = append(os.Environ(), victimOf+"="+l.Addr().String()+" "+control.Addr().String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tcp, err := control.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	c := l.accept(t)
	if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 2)
	go func() { _, err := c.Read(make([]byte, 1)); ends <- err }()
	go func() { _, err := c.Write(random(10 * defaultRing)); ends <- err }()
	time.Sleep(50 * time.Millisecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = tcp.Read(make([]byte, 1))
	killed := time.Now()
	for range 2 {
		if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v, want ECONNRESET", err)
		}
	}
	took := time.Since(killed)
	t.Logf("ECONNRESET after %v", took)
	if took > time.Second {
		t.Errorf("it took %v", took)
	}
	_ = cmd.Wait()
}
