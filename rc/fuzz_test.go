//go:build !rdma

// Fuzz tests of the greeting: the steps from the hello to RTS, at both ends, with a peer that sends
// arbitrary bytes. Either the Conn connects, or the error names the step; the end always frees
// everything, which the device's Close checks.

package rc

import (
	"bytes"
	"context"
	stderrors "errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// FuzzAccept has a hostile client greet the server's side.
func FuzzAccept(f *testing.F) { fuzzGreeting(f, oob.RoleClient) }

// FuzzDial has a hostile server answer the client's side.
func FuzzDial(f *testing.F) { fuzzGreeting(f, oob.RoleServer) }

// fuzzGreeting fuzzes the side opposite of a peer with a role.
func fuzzGreeting(f *testing.F, peer oob.Role) {
	dev := softtest.Open(f)
	for _, seed := range greetings(f, peer) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) > 16<<10 {
			return
		}
		wire := &canned{rest: sent}
		tcp := oob.NewConn(wire, oob.Options{Timeout: testkit.Limit})
		cfg := (&Config{Device: dev, Job: "fuzz", Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}, Prepare: func(c *Conn) error {
			mr, err := c.AllocMR("buffer", 64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
			if err == nil {
				c.Share("buffer", mr)
			}
			return err
		}}).complete()
		c, err := greeted(t.Context(), tcp, cfg, peer)
		step := func(name string) bool { return strings.HasPrefix(err.Error(), name+": ") }
		switch {
		case err == nil:
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		case !slices.ContainsFunc(append((&Conn{}).stepNames(), "hello"), step):
			t.Errorf("the error names no step: %v", err)
		}
		wire.mu.Lock()
		defer wire.mu.Unlock()
		if wire.asked > 1<<20 || !wire.closed {
			t.Errorf("the largest buffer had %d bytes; closed: %v", wire.asked, wire.closed)
		}
	})
}

// greeted takes all steps of one side.
func greeted(ctx context.Context, tcp *oob.Conn, cfg Config, peer oob.Role) (*Conn, error) {
	if peer == oob.RoleServer {
		return dialed(ctx, tcp, cfg)
	}
	in := &Incoming{tcp: tcp, cfg: ListenConfig{Job: cfg.Job}}
	if _, err := in.Hello(ctx); err != nil {
		in.Refuse(err)
		return nil, err
	}
	cfg.Job = ""
	return in.Connect(ctx, cfg)
}

func (c *Conn) stepNames() (names []string) {
	for _, s := range c.steps() {
		names = append(names, s.name)
	}
	return names
}

// greetings returns what peers send: one that keeps the protocol, and some that do not.
func greetings(f *testing.F, role oob.Role) (seeds [][]byte) {
	for _, change := range []func(*oob.Hello, *oob.Endpoint, *oob.Region){
		func(*oob.Hello, *oob.Endpoint, *oob.Region) {},
		func(h *oob.Hello, _ *oob.Endpoint, _ *oob.Region) { h.Job = "other" },
		func(_ *oob.Hello, e *oob.Endpoint, _ *oob.Region) {
			e.GID = [16]byte{10: 255, 11: 255, 12: 203, 14: 113, 15: 9}
		}, // another host's
		func(_ *oob.Hello, e *oob.Endpoint, _ *oob.Region) { e.ResponderResources, e.InitiatorDepth = 0, 255 },
		func(_ *oob.Hello, e *oob.Endpoint, _ *oob.Region) { e.QPType = oob.QPTypeUC },
		func(_ *oob.Hello, _ *oob.Endpoint, r *oob.Region) { r.Addr, r.Length = 1<<63, 1<<63-1 },
	} {
		h := oob.Hello{Role: role, Job: "fuzz", Program: "peer", Params: map[string]string{"size": "64"}}
		e := oob.Endpoint{QPType: oob.QPTypeRC, QPN: 0x1234, PSN: 7, GID: cannedHost.As16(), MTU: 1024, InitiatorDepth: 1, ResponderResources: 1}
		r := oob.Region{Name: "buffer", Addr: 1 << 20, Length: 4096, RKey: 7}
		change(&h, &e, &r)
		frames := greeting(f, h, e, r)
		all := slices.Concat(frames...)
		seeds = append(seeds, all, slices.Concat(frames[0], frames[1][:len(frames[1])-3]), slices.Concat(frames[0], frames[1], frames[2], frames[0], frames[1]))
	}
	return append(seeds, []byte("GET / HTTP/1.1\r\n\r\n"), nil)
}

// greeting records what a peer sends that keeps the protocol: its frames, one per step.
func greeting(f *testing.F, h oob.Hello, e oob.Endpoint, r oob.Region) (frames [][]byte) {
	a, b := net.Pipe()
	sent := &recorded{Conn: a}
	answer := h
	answer.Role = oob.RoleClient + oob.RoleServer - h.Role
	steps := func(nc net.Conn, h oob.Hello) error {
		c := oob.NewConn(nc, oob.Options{})
		defer c.Close()
		_, err1 := c.Hello(f.Context(), h)
		_, err2 := c.ExchangeEndpoint(f.Context(), e)
		_, err3 := c.ExchangeRegions(f.Context(), []oob.Region{r})
		err4 := c.Barrier(f.Context(), barrierReceives)
		err5 := c.Barrier(f.Context(), barrierRTS)
		return stderrors.Join(err1, err2, err3, err4, err5)
	}
	answered := make(chan error, 1)
	go func() { answered <- steps(b, answer) }()
	if err := stderrors.Join(steps(sent, h), <-answered); err != nil {
		f.Fatal(err)
	}
	return sent.frames
}

// recorded keeps what is written.
type recorded struct {
	net.Conn
	frames [][]byte
}

func (r *recorded) Write(b []byte) (int, error) {
	r.frames = append(r.frames, bytes.Clone(b))
	return r.Conn.Write(b)
}

// cannedHost is the peer's address.
var cannedHost = netip.MustParseAddr("127.0.0.1")

// canned is a connection to a peer that sends fixed bytes, and closes when it has heard nothing in
// cannedPatience, a few looks. If it closed at once, the other end would fail at its next message.
type canned struct {
	net.Conn // nil: nothing else is called

	mu     sync.Mutex
	rest   []byte
	asked  int // the size of the largest Read
	looks  int // since the last Write
	closed bool
}

const cannedPatience = 5

func (c *canned) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = max(c.asked, len(b))
	for len(c.rest) == 0 {
		if c.closed || c.looks == cannedPatience {
			return 0, io.EOF
		}
		c.looks++
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
		c.mu.Lock()
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *canned) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *canned) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = 0
	return len(b), nil
}

func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }
func (c *canned) LocalAddr() net.Addr              { return c.RemoteAddr() }
func (c *canned) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(cannedHost, 1))
}
