// Package rnet on simulated networks: nettest in real time on a bad one, and in simulated time what
// takes too long otherwise. Both ends have a device of their own.

package softroce

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/rnet"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
	"github.com/rawverbs/rawverbs/verbs"
)

// netProvider opens devices on the network that is current. Their names end in the address.
type netProvider struct{ network *network }

const netPrefix = "soft-net:"

var theNet = sync.OnceValue(func() *netProvider {
	p := &netProvider{}
	verbs.Register(p)
	return p
})

func (*netProvider) Name() string                         { return "softroce on a simulated network" }
func (*netProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (p *netProvider) Open(name string) (verbs.ProviderDevice, error) {
	address, ok := strings.CutPrefix(name, netPrefix)
	if !ok {
		return nil, syscall.ENODEV
	}
	return newDevice(name, []*port{{link: p.network.end(netip.MustParseAddr(address)), gidIndex: 1}}), nil
}

// openNet opens the devices of both ends on a new network.
func openNet(t *testing.T, faults wire.Faults) (n *network, devices [2]*verbs.Device) {
	n = newNetwork(*badSeed, faults)
	theNet().network = n
	for i := range devices {
		dev, err := verbs.Open(fmt.Sprintf("%sfd00::%d", netPrefix, i+1))
		if err != nil {
			t.Fatal(err)
		}
		devices[i] = dev
	}
	return n, devices
}

// OpenSimulated opens two devices on a good network in simulated time, and closes them when the test ends.
func OpenSimulated(t *testing.T) (x, y *verbs.Device) {
	_, devices := openNet(t, wire.Faults{})
	for _, dev := range devices {
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return devices[0], devices[1]
}

var badNettest = flag.Bool("softroce.nettest", false, "run TestRnetOnABadNetwork, which takes some seconds")

// TestRnetOnABadNetwork runs nettest in real time on a network that loses, duplicates, reorders and
// damages packets. make test-net runs it.
func TestRnetOnABadNetwork(t *testing.T) {
	if !*badNettest {
		return // TestRnetSimulatedTransfer has the same faults
	}
	network, devices := openNet(t, badFaults)
	var open sync.WaitGroup
	cfg := func(i int) rnet.Config {
		return rnet.Config{Device: devices[i], Ring: 64 << 10, ConnState: func(_ *rnet.Conn, s rnet.ConnState) {
			if s == rnet.StateOpen {
				open.Add(1)
			} else {
				open.Done()
			}
		}}
	}
	nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
		l, err := (&rnet.ListenConfig{Config: cfg(0)}).Listen(t.Context(), "rdma", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer l.Close()
		if a, err = (&rnet.Dialer{Config: cfg(1)}).DialContext(t.Context(), "rdma", l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		b, err = l.Accept()
		return a, b, func() { a.Close(); b.Close() }, err
	})
	open.Wait()
	for _, dev := range devices {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
	s := network.statistics()
	t.Logf("%d packets: %d lost, %d duplicated, %d reordered, %d damaged", s.Sent, s.Lost, s.Duplicated, s.Reordered, s.Corrupted)
	if s.Lost == 0 || s.Duplicated == 0 || s.Reordered == 0 || s.Corrupted == 0 {
		t.Error("the network had too few faults")
	}
}

// netEnds are both ends of a connection in simulated time.
type netEnds struct {
	network *network
	conns   [2]*rnet.Conn
}

// everywhere has all networks: the exchange's addresses are not those of the simulated network.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// simulate runs a test in a bubble of testing/synctest. The exchange uses a net.Pipe: a goroutine
// that waits for a socket would stop the simulated clock.
func simulate(t *testing.T, faults wire.Faults, cfg rnet.Config, test func(t *testing.T, e netEnds)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network, devices := openNet(t, faults)
		e := netEnds{network: network}
		l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{Wrap: pipeEnd(0)})
		if err != nil {
			t.Fatal(err)
		}
		var connecting sync.WaitGroup
		config := func(i int) rc.Config {
			c := rc.Config{Device: devices[i], PeerNetworks: everywhere, Prepare: func(r *rc.Conn) (err error) {
				e.conns[i], err = rnet.Attach(r, cfg)
				return err
			}}
			rnet.Configure(&c)
			return c
		}
		connecting.Go(func() {
			in, err := l.Accept(context.Background())
			l.Close()
			if err == nil {
				if _, err = in.Hello(context.Background()); err == nil {
					_, err = in.Connect(context.Background(), config(1))
				}
			}
			if err != nil {
				t.Error("the listening end:", err)
			}
		})
		client := config(0)
		client.Wrap = pipeEnd(1)
		if _, err := rc.Dial(context.Background(), l.Addr().String(), client); err != nil {
			t.Fatal(err)
		}
		connecting.Wait()
		for _, c := range e.conns {
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
		}
		test(t, e)
		for i, c := range e.conns {
			c.Close()
			for devices[i].Close() != nil { // until the Conn is freed
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
}

// pipes has the two ends of the pipe of the connection in progress, by the address of its client.
var pipes sync.Map

// pipeEnd returns a function that replaces a TCP connection by an end of a pipe.
func pipeEnd(end int) func(context.Context, net.Conn) (net.Conn, error) {
	return func(_ context.Context, tcp net.Conn) (net.Conn, error) {
		client := tcp.LocalAddr().String()
		if end == 0 {
			client = tcp.RemoteAddr().String()
		}
		a, b := net.Pipe()
		both, loaded := pipes.LoadOrStore(client, [2]net.Conn{a, b})
		if loaded {
			pipes.Delete(client)
		}
		tcp.Close()
		return both.([2]net.Conn)[end], nil
	}
}

// TestRnetSimulatedTransfer: both directions carry every byte over a slow and bad network.
func TestRnetSimulatedTransfer(t *testing.T) {
	faults := badFaults
	faults.Delay = 5 * time.Millisecond
	simulate(t, faults, rnet.Config{Ring: 128 << 10}, func(t *testing.T, e netEnds) {
		var all sync.WaitGroup
		for i, c := range e.conns {
			data := make([]byte, 1<<20)
			rand.NewChaCha8([32]byte{byte(i)}).Read(data)
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for left := data; len(left) > 0; {
					n := min(len(left), 1+r.IntN(20_000))
					if _, err := c.Write(left[:n]); err != nil {
						t.Errorf("end %d: %v", i, err)
						return
					}
					left = left[n:]
				}
				if err := c.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				got, err := io.ReadAll(e.conns[1-i])
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("end %d: %d bytes, %v", 1-i, len(got), err)
				}
			})
		}
		all.Wait()
	})
}

// TestRnetSimulatedHours: a reader that pauses for hours loses nothing, and deadlines pass to the
// millisecond.
func TestRnetSimulatedHours(t *testing.T) {
	simulate(t, wire.Faults{Delay: time.Millisecond}, rnet.Config{Ring: 64 << 10}, func(t *testing.T, e netEnds) {
		began := time.Now()
		written := make(chan error, 1)
		go func() { _, err := e.conns[0].Write(make([]byte, 200_000)); written <- err }()
		time.Sleep(10 * time.Hour)
		if n, err := io.ReadFull(e.conns[1], make([]byte, 200_000)); err != nil {
			t.Errorf("after ten hours: %d bytes, %v", n, err)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 10*time.Hour || took > 10*time.Hour+time.Minute {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		if err := e.conns[0].SetReadDeadline(began.Add(time.Hour)); err != nil {
			t.Error(err)
		}
		_, err := e.conns[0].Read(make([]byte, 1))
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took < time.Hour || took > time.Hour+5*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestRnetSimulatedCut: when the network is cut, a keep-alive probe finds out, although TCP stays up.
func TestRnetSimulatedCut(t *testing.T) {
	simulate(t, wire.Faults{Delay: time.Millisecond}, rnet.Config{Ring: 64 << 10}, func(t *testing.T, e netEnds) {
		ended := make(chan error, 2)
		for _, c := range e.conns {
			go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
		}
		time.Sleep(time.Hour) // probes keep it alive
		select {
		case err := <-ended:
			t.Fatal("before the cut:", err)
		default:
		}
		e.network.cut()
		cut := time.Now()
		for range 2 {
			if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v, want ECONNRESET", err)
			}
		}
		if took := time.Since(cut); took > 40*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestRnetSimulatedLinger: Close gives up sending after Config.Linger, when the network is cut.
func TestRnetSimulatedLinger(t *testing.T) {
	const linger = 700 * time.Millisecond // shorter than the retries
	var closed atomic.Int32
	cfg := rnet.Config{Ring: 64 << 10, Linger: linger, ConnState: func(_ *rnet.Conn, s rnet.ConnState) {
		if s == rnet.StateClosed {
			closed.Add(1)
		}
	}}
	simulate(t, wire.Faults{Delay: time.Millisecond}, cfg, func(t *testing.T, e netEnds) {
		e.network.cut()
		if _, err := e.conns[0].Write([]byte("never received")); err != nil {
			t.Error(err)
		}
		began := time.Now()
		e.conns[0].Close()
		for closed.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took < linger || took > linger+1500*time.Millisecond { // rc waits up to a second for the flush
			t.Errorf("the Conn is freed after %v", took)
		}
	})
}
