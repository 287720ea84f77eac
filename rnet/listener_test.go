package rnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/secure/credentials"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
)

// listen returns a listener of the device under test, and a dialer for it.
func listen(t *testing.T, lc ListenConfig) (*Listener, *Dialer) {
	t.Helper()
	there, here := devices(t)
	lc.Device, lc.Ring = here, minRing
	l, err := lc.Listen(t.Context(), network, host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		testkit.Receive(t, l.(*Listener).ended, "end of the listener's goroutines")
	})
	return l.(*Listener), &Dialer{Config: Config{Device: there, Ring: minRing}}
}

func (l *Listener) dial(t *testing.T, d *Dialer) *Conn {
	t.Helper()
	c, err := d.DialContext(t.Context(), network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(c.(*Conn)) })
	return c.(*Conn)
}

// late reports whether an error of a peer says that it took too long, as on a busy host.
func late(err error) bool {
	return strings.Contains(err.Error(), (&admission.IdleError{Connecting: true}).Error()) || strings.Contains(err.Error(), "timed out")
}

// dialUntil dials until the listener does not refuse the peer as slow.
func (l *Listener) dialUntil(t *testing.T, d *Dialer) (net.Conn, error) {
	for ctx := testkit.Context(t); ; {
		c, err := d.DialContext(ctx, network, l.Addr().String())
		if err == nil || ctx.Err() != nil || !late(err) {
			return c, err
		}
	}
}

func (l *Listener) accept(t *testing.T) *Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(c.(*Conn)) })
	return c.(*Conn)
}

// TestAcceptMany: Accept, called by many goroutines at once, returns each Conn once.
func TestAcceptMany(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	const peers = 20
	var mu sync.Mutex
	accepted, dialed := map[string]int{}, map[string]int{}
	var wg sync.WaitGroup
	for range peers {
		wg.Go(func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			accepted[c.RemoteAddr().String()]++
			mu.Unlock()
			end(c.(*Conn))
		})
		wg.Go(func() {
			c, err := d.DialContext(t.Context(), network, l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			dialed[c.LocalAddr().String()]++
			mu.Unlock()
			end(c.(*Conn))
		})
	}
	wg.Wait()
	if len(accepted) != peers || !maps.Equal(accepted, dialed) {
		t.Errorf("dialed %v, accepted %v", dialed, accepted)
	}
}

// TestAcceptBlocks until a peer comes.
func TestAcceptBlocks(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			t.Cleanup(func() { end(c.(*Conn)) })
		}
		accepted <- err
	}()
	time.Sleep(testkit.Moment)
	select {
	case err := <-accepted:
		t.Fatal("Accept returned without a peer:", err)
	default:
	}
	l.dial(t, d)
	if err := testkit.Receive(t, accepted, "end of Accept"); err != nil {
		t.Error(err)
	}
}

func TestListenerClose(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	open := l.dial(t, d)
	accepted := l.accept(t)
	waiting := l.dial(t, d) // never accepted
	var wg sync.WaitGroup
	l2, _ := listen(t, ListenConfig{})
	for range 3 {
		wg.Go(func() {
			_, err := l2.Accept()
			wantError(t, err, "accept", net.ErrClosed)
		})
	}
	time.Sleep(testkit.Moment) // likely, Accept waits now
	for _, l := range []*Listener{l, l2} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wantError(t, l.Close(), "close", net.ErrClosed)
		_, err := l.Accept()
		wantError(t, err, "accept", net.ErrClosed)
		wantError(t, l.SetDeadline(time.Now()), "set", net.ErrClosed)
	}
	wg.Wait()
	if _, err := waiting.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("a Conn that nobody accepted: %v, want a reset", err)
	}
	if _, err := open.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := accepted.Read(make([]byte, 1)); err != nil {
		t.Error("an accepted Conn must stay open:", err)
	}
	if _, err := d.DialContext(t.Context(), network, l.Addr().String()); err == nil {
		t.Error("a closed listener accepts")
	}
}

func TestListenerDeadline(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	timesOut := func(at time.Time) {
		t.Helper()
		_, err := l.Accept()
		wantError(t, err, "accept", os.ErrDeadlineExceeded)
		if e := net.Error(nil); !errors.As(err, &e) || !e.Timeout() || time.Now().Before(at) {
			t.Errorf("%v, at %v; the deadline is %v", err, time.Now(), at)
		}
	}
	set := func(at time.Time) {
		t.Helper()
		if err := l.SetDeadline(at); err != nil {
			t.Error(err)
		}
	}
	soon := time.Now().Add(testkit.Moment)
	set(soon)
	timesOut(soon)
	timesOut(soon) // it stays passed
	set(time.Unix(1, 0))
	timesOut(soon)
	set(testkit.Deadline())
	late := make(chan error, 1)
	go func() { _, err := l.Accept(); late <- err }()
	time.Sleep(testkit.Moment) // likely, Accept waits now
	set(time.Unix(1, 0))       // ends a pending Accept
	wantError(t, testkit.Receive(t, late, "end of Accept"), "accept", os.ErrDeadlineExceeded)
	set(time.Time{})
	l.dial(t, d)
	l.accept(t)
	set(time.Now().Add(testkit.Moment))
	set(testkit.Deadline()) // the earlier timer must not count
	l.dial(t, d)
	time.Sleep(2 * testkit.Moment)
	l.accept(t)
}

// TestBacklog: with a full backlog further peers wait, and none is lost. A peer that connects slowly while
// others wait is refused, and connects again.
func TestBacklog(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 2})
	const peers = 8
	var connected atomic.Int32
	var wg sync.WaitGroup
	for range peers {
		wg.Go(func() {
			c, err := l.dialUntil(t, d)
			if err != nil {
				t.Error(err)
				return
			}
			connected.Add(1)
			t.Cleanup(func() { end(c.(*Conn)) })
		})
	}
	testkit.Until(t, "two Conns", func() bool { return connected.Load() >= 2 })
	time.Sleep(testkit.Moment)
	if n := connected.Load(); n != 2 {
		t.Errorf("%d peers are connected, and the backlog has 2 places", n)
	}
	for range peers {
		l.accept(t)
	}
	wg.Wait()
}

// TestSilentPeers: peers that connect by TCP and say nothing, or nonsense, keep nobody out.
func TestSilentPeers(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	l, d := listen(t, ListenConfig{Backlog: 1, Config: Config{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelWarn}))}})
	for i := range 20 {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if i%2 == 0 {
			fmt.Fprint(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	l.dial(t, d)
	l.accept(t)
	text := func() string { mu.Lock(); defer mu.Unlock(); return log.String() }
	testkit.Until(t, "word in the log of what spoke HTTP", func() bool { return strings.Contains(text(), "HTTP") }, text)
}

// TestStallingPeers: peers that say hello and then fall silent hold the backlog only for a while; see
// TestSlowPeersLoseTheirPlaces. On a busy host an honest peer may be late itself, and then tries again.
func TestStallingPeers(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 2, Config: Config{Timeout: 2 * time.Second}})
	for range 6 {
		l.greet(t)
	}
	why := ""
	testkit.Until(t, "Conn of an honest peer", func() bool {
		c, err := d.DialContext(testkit.Context(t), network, l.Addr().String())
		if err != nil {
			why = err.Error()
			return false
		}
		t.Cleanup(func() { end(c.(*Conn)) })
		return true
	}, func() string { return why })
	l.accept(t)
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func TestListenErrors(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	for _, test := range []struct {
		lc               ListenConfig
		network, address string
		want             string
	}{
		{ListenConfig{}, "udp", host + ":0", "network"},
		{ListenConfig{}, network, l.Addr().String(), "taken"},
		{ListenConfig{}, network, "nowhere", "port"},
		{ListenConfig{Config: Config{Ring: 100_000}}, network, host + ":0", "power of two"},
		{ListenConfig{Config: Config{Ring: 1 << 30}}, network, host + ":0", "power of two"},
		{ListenConfig{Config: Config{Spin: -1}}, network, host + ":0", "Config.Spin is -1ns"},
	} {
		test.lc.Device = d.Device
		_, err := test.lc.Listen(t.Context(), test.network, test.address)
		var e *net.OpError
		if !errors.As(err, &e) || e.Op != "listen" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test, err, test.want)
		}
	}
}

func TestDialErrors(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx              context.Context
		network, address string
		want             string
	}{
		{t.Context(), "unix", "/tmp/x", "network"},
		{t.Context(), network, host + ":1", "refused"},
		{t.Context(), network, "x", "port"},
		{canceled, network, l.Addr().String(), "canceled"},
	} {
		_, err := d.DialContext(test.ctx, test.network, test.address)
		var e *net.OpError
		if !errors.As(err, &e) || e.Op != "dial" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.address, err, test.want)
		}
	}
}

// TestFallback: without RDMA, DialContext fails unless a fallback is asked for, and says so in the log.
func TestFallback(t *testing.T) {
	tcp, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { fmt.Fprint(c, "220 plain TCP\r\n"); _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	_, d := listen(t, ListenConfig{})
	if _, err := d.DialContext(t.Context(), "tcp", tcp.Addr().String()); err == nil {
		t.Fatal("it connected without RDMA, and nobody asked for that")
	}
	var log bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d.Fallback = new(net.Dialer).DialContext
	c, err := d.DialContext(t.Context(), "tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.(*net.TCPConn); !ok || !strings.Contains(log.String(), "falling back") || !strings.Contains(log.String(), tcp.Addr().String()) {
		t.Errorf("%T; the log: %s", c, log.String())
	}
}

// TestDefaultDevice: without a device in the Config all Conns share one, which the last one closes.
func TestDefaultDevice(t *testing.T) {
	l, err := Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if c.(*Conn).rc.Device() != s.(*Conn).rc.Device() {
		t.Error("the Conns have two devices")
	}
	l.Close()
	end(c.(*Conn))
	end(s.(*Conn))
	testkit.Until(t, "end of the device", func() bool {
		defaultDevice.Lock()
		defer defaultDevice.Unlock()
		return defaultDevice.dev == nil && defaultDevice.users == 0
	})
}

// TestTLS: the exchange is encrypted if both ends ask for it, and a peer without trust is refused.
func TestTLS(t *testing.T) {
	clientTLS, serverTLS := certificate(t)
	l, d := listen(t, ListenConfig{Config: Config{TLSConfig: serverTLS}})
	if _, err := d.DialContext(t.Context(), network, l.Addr().String()); err == nil {
		t.Error("a plain peer connected")
	}
	d.TLSConfig = &tls.Config{}
	if _, err := d.DialContext(t.Context(), network, l.Addr().String()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a peer that does not trust the certificate: %v", err)
	}
	d.TLSConfig = clientTLS
	c := l.dial(t, d)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := l.accept(t).Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// certificate returns configurations with a certificate for the host, and with the trust in it.
func certificate(t testing.TB) (client, server *tls.Config) {
	dir := filepath.Join(t.TempDir(), "lab")
	now := time.Now()
	if err := credentials.Make(dir, []string{host}, []string{credentials.Client}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	client, err := rc.LoadTLS(filepath.Join(dir, credentials.Client))
	if err != nil {
		t.Fatal(err)
	}
	key, err := tls.LoadX509KeyPair(filepath.Join(dir, credentials.Server, "tls.crt"), filepath.Join(dir, credentials.Server, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	return client, &tls.Config{Certificates: []tls.Certificate{key}}
}
