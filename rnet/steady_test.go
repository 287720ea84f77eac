package rnet

import (
	"bytes"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

var manyConns = flag.Int("rnet.conns", 100, "Conns at once in TestManyConns")

// TestManyConns has many Conns at once, on one device per end, and moves data on all of them.
func TestManyConns(t *testing.T) {
	// A busy host needs longer than usual for all of them.
	patient := Config{Timeout: testkit.Limit, Linger: testkit.Limit}
	l, d := listen(t, ListenConfig{Config: patient})
	d.Timeout, d.Linger = patient.Timeout, patient.Linger
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
		for _, c := range conns {
			if c != nil {
				end(c) // or its other end waits for data forever
			}
		}
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
	_, _ = tcp.Read(make([]byte, 1)) // until the test ends this process, or itself
}

// TestKilledPeer: a read and a write that wait end with ECONNRESET when the peer is killed. The end of its
// TCP connection ends them: nothing is on its way that the device could give up.
func TestKilledPeer(t *testing.T) {
	l, _ := listen(t, ListenConfig{Config: Config{KeepAlive: -1}})
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
	c.awaitWaiter(t, &c.reader)
	c.awaitWaiter(t, &c.writer)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := testkit.Receive(t, ends, "end of a read or a write")
		var given *verbs.WCError
		if !errors.Is(err, syscall.ECONNRESET) || errors.As(err, &given) {
			t.Errorf("%v, want ECONNRESET because of the TCP connection", err)
		}
	}
	_ = cmd.Wait()
}
