package perftest

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	table "github.com/rawverbs/rawverbs/cmd/internal/job/bench"
	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// perftestEnd returns an end for a test, and the results that it shows.
func perftestEnd(plan measure.Plan, client bool) (*endpoint, *[]measure.Result) {
	plan.Client = client
	shown := new([]measure.Result)
	return &endpoint{
		Table: table.Table{Tracer: kit.Tracer{Logger: slog.New(slog.DiscardHandler)}, Plan: plan, Unit: measure.MB},
		port:  1,
		show:  func(_ string, r measure.Result) { *shown = append(*shown, r) },
	}, shown
}

// limitOfSilence is how long a job may stand still that must fail by this limit.
const limitOfSilence = 200 * time.Millisecond

// perftestPlan returns the program's default plan with fewer messages.
func perftestPlan(t *testing.T, op measure.Op, latency bool, change func(*measure.Plan)) measure.Plan {
	t.Helper()
	p := measure.Defaults(op, latency)
	p.Iterations = 200
	if change != nil {
		change(&p)
	}
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPerftestBetweenTwo runs both roles against each other.
func TestPerftestBetweenTwo(t *testing.T) {
	for name, test := range map[string]struct {
		op      measure.Op
		latency bool
		change  func(*measure.Plan)
	}{
		"send-bw":                  {measure.Send, false, nil},
		"write-bw":                 {measure.Write, false, nil},
		"read-bw":                  {measure.Read, false, nil},
		"atomic-bw":                {measure.Atomic, false, nil},
		"send-lat":                 {measure.Send, true, nil},
		"write-lat":                {measure.Write, true, nil},
		"read-lat":                 {measure.Read, true, nil},
		"atomic-lat":               {measure.Atomic, true, nil},
		"send-bw, several":         {measure.Send, false, func(p *measure.Plan) { p.QPs, p.Size = 3, 100 }},
		"write-bw, several":        {measure.Write, false, func(p *measure.Plan) { p.QPs, p.Size = 3, 100 }},
		"send-bw, both ways":       {measure.Send, false, func(p *measure.Plan) { p.Both, p.Size = true, 1000 }},
		"write-bw, both ways":      {measure.Write, false, func(p *measure.Plan) { p.Both = true }},
		"read-bw, both ways":       {measure.Read, false, func(p *measure.Plan) { p.Both, p.QPs = true, 2 }},
		"atomic-bw, both ways":     {measure.Atomic, false, func(p *measure.Plan) { p.Both = true }},
		"send-bw, all sizes":       {measure.Send, false, func(p *measure.Plan) { p.All, p.Iterations = true, 5 }},
		"write-bw, all sizes":      {measure.Write, false, func(p *measure.Plan) { p.All, p.Iterations = true, 5 }},
		"write-bw, all, both ways": {measure.Write, false, func(p *measure.Plan) { p.All, p.Both, p.Iterations = true, true, 5 }},
		"send-bw, all, both ways":  {measure.Send, false, func(p *measure.Plan) { p.All, p.Both, p.Iterations = true, true, 5 }},
		"send-lat, all sizes":      {measure.Send, true, func(p *measure.Plan) { p.All, p.Iterations = true, 5 }},
		"write-lat, all sizes":     {measure.Write, true, func(p *measure.Plan) { p.All, p.Iterations = true, 5 }},
		"read-lat, all sizes":      {measure.Read, true, func(p *measure.Plan) { p.All, p.Iterations = true, 5 }},
		"send-bw, duration":        {measure.Send, false, func(p *measure.Plan) { p.Duration = time.Second / 10 }},
		"write-bw, duration":       {measure.Write, false, func(p *measure.Plan) { p.Duration = time.Second / 10 }},
		"write-bw, both, duration": {measure.Write, false, func(p *measure.Plan) { p.Both, p.Duration = true, time.Second/10 }},
		"send-bw, both, duration":  {measure.Send, false, func(p *measure.Plan) { p.Both, p.Duration = true, time.Second/10 }},
		"send-lat, duration":       {measure.Send, true, func(p *measure.Plan) { p.Duration = time.Second / 10 }},
		"write-lat, duration":      {measure.Write, true, func(p *measure.Plan) { p.Duration = time.Second / 10 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := perftestPlan(t, test.op, test.latency, test.change)
			if plan.Duration == 0 {
				runPerftest(t, plan)
				return
			}
			testkit.Until(t, "run in which both ends count something", func() bool { // a busy host may do nothing in the duration
				return runPerftest(t, plan) > 0 || t.Failed()
			})
		})
	}
}

// runPerftest runs a plan between two ends, checks what they show, and returns the least count of iterations
// among the results.
func runPerftest(t *testing.T, plan measure.Plan) (least int64) {
	t.Helper()
	client, showsC := perftestEnd(plan, true)
	server, showsS := perftestEnd(plan, false)
	cerr, serr := peertest.Between(t, client, server)
	if cerr != nil || serr != nil {
		t.Fatalf("client: %v; server: %v", cerr, serr)
	}
	if got, want := len(*showsC), len(plan.Sizes()); got != want {
		t.Errorf("the client shows %d results, want %d", got, want)
	}
	silent := plan.Latency && server.Plan.Passive()
	if want := map[bool]int{true: 0, false: 1}[silent]; want > len(*showsS) || silent && len(*showsS) > 0 {
		t.Errorf("the server shows %d results", len(*showsS))
	}
	least = math.MaxInt64
	for _, r := range append(*showsC, *showsS...) {
		least = min(least, r.Iterations)
		if want := int64(plan.Iterations * plan.QPs); plan.Duration == 0 && r.Iterations != want {
			t.Errorf("%d iterations, want %d", r.Iterations, want)
		}
		if b := r.Bandwidth; b != nil && r.Iterations > 0 && (b.Average <= 0 || b.Messages <= 0) {
			t.Errorf("bandwidth %+v", *b)
		}
	}
	return least
}

// TestPerftestLongForAWait lets the client measure alone for longer than a job may stand still.
// The server must wait, because it knows the duration.
func TestPerftestLongForAWait(t *testing.T) {
	const duration = 10 * time.Minute
	for name, after := range map[string]time.Duration{"the whole duration": duration, "until the client's message": duration / 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _ := perftestEnd(perftestPlan(t, measure.Read, true, func(p *measure.Plan) { p.Duration = duration }), false)
				came := make(chan struct{})
				server.next = &following{until: t.Context(), came: came}
				m := kit.NewMotion()
				over := make(chan error, 1)
				began := time.Now()
				go func() { over <- server.awaitReports(kit.WithMotion(t.Context(), m), nil) }()
				for time.Since(began) < after {
					time.Sleep(time.Second)
					if still, _ := m.Idle(); still > time.Second/2 {
						t.Fatalf("no progress for %v", still)
					}
				}
				if after < duration {
					close(came)
				}
				if err := <-over; err != nil || time.Since(began) != after {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// The messages of the exchange, in order, for one queue pair and SEND.
var perftestSteps = []struct {
	name string
	data []byte
}{
	{"version", appendVersion(nil)},
	{"page size", []byte{0, 0, 16, 0}},
	{"cache line", []byte{0, 0, 0, 64}},
	{"path MTU", []byte("3\x00")},
	{"key", fakeKey},
	{"meeting in RTS", fakeKey},
	{"key again", fakeKey},
	{"meeting before the run", fakeKey},
}

// fakeKey is the key of a queue pair that does not exist.
var fakeKey, _ = appendKey(nil, qpKey{OutReads: 1, QPN: 0x7ffff1, RKey: 1, Addr: 0x1000, GID: netip.MustParseAddr("::ffff:127.0.0.1").As16()})

// fakePerftest is a peer that follows the exchange for some steps, and then calls then.
func fakePerftest(conn net.Conn, client bool, steps int, then func(net.Conn)) {
	defer conn.Close()
	conn.SetDeadline(testkit.Deadline())
	for i, step := range perftestSteps[:steps] {
		heard := make([]byte, len(perftestSteps[i].data))
		if client {
			conn.Write(step.data)
		}
		if _, err := io.ReadFull(conn, heard); err != nil {
			return
		}
		if !client {
			conn.Write(step.data)
		}
	}
	then(conn)
	io.Copy(io.Discard, conn) // until the tested end hangs up
}

// TestPerftestPeerFails checks that the job ends with one clear line if the peer dies, falls
// silent or sends nonsense, at any step.
func TestPerftestPeerFails(t *testing.T) {
	endings := map[string]struct {
		then  func(net.Conn)
		limit time.Duration
		want  string
	}{
		"dies":     {func(c net.Conn) { c.Close() }, testkit.Limit, "connection"},
		"silent":   {func(net.Conn) {}, limitOfSilence, ""},
		"nonsense": {func(c net.Conn) { c.Write(bytes.Repeat([]byte("\xff\x1b nonsense"), 100)) }, limitOfSilence, ""},
	}
	for _, client := range []bool{true, false} {
		for steps := range len(perftestSteps) + 1 {
			for ending, e := range endings {
				at := "the run"
				if steps < len(perftestSteps) {
					at = perftestSteps[steps].name
				}
				t.Run(fmt.Sprintf("client %v, %s at %s", client, ending, at), func(t *testing.T) {
					t.Parallel()
					h, shown := perftestEnd(perftestPlan(t, measure.Send, false, nil), client)
					err := peertest.Against(t.Context(), t, h, client, e.limit, func(c net.Conn) { fakePerftest(c, !client, steps, e.then) })
					if err == nil || !strings.Contains(err.Error(), e.want) || len(*shown) > 0 {
						t.Fatalf("%v; %d results", err, len(*shown))
					}
					if strings.ContainsAny(err.Error(), "\n\x1b") {
						t.Errorf("more than one clear line: %q", err)
					}
					t.Log(err)
				})
			}
		}
	}
}

// TestPerftestWrongPeer checks that the error names another program at the other end.
func TestPerftestWrongPeer(t *testing.T) {
	say := func(data string) func(net.Conn) {
		return func(c net.Conn) { io.WriteString(c, data) }
	}
	version := func(v string) string { return v + strings.Repeat("\x00", versionSize-len(v)) }
	for name, test := range map[string]struct {
		client bool
		then   func(net.Conn)
		want   string
	}{
		"an older client":   {false, say(version("5.96")), "version 5.96 of perftest's exchange"},
		"a newer server":    {true, say(version("6.29")), "version 6.29 of perftest's exchange"},
		"an HTTP client":    {false, say("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "an HTTP client"},
		"an SSH server":     {true, say("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), "an SSH server"},
		"one that leaves":   {false, func(c net.Conn) { io.WriteString(c, "6.06\x00\x00\x00"); c.(*net.TCPConn).CloseWrite() }, "after 7 of 16 bytes"},
		"an HTTP server":    {true, say("HTTP/1.1 400 Bad Request\r\n\r\n"), "an HTTP server"},
		"a pingpong":        {false, say("0000:000011:8f3a2b:00000000000000000000ffff0a000001\x00"), "ibv_rc_pingpong"},
		"RDMA_RC_example":   {false, say(strings.Repeat("\x01", 34)), "perftest"},
		"no such host":      {false, say(version(exchangeVersion) + "\x00\x00\x10\x00" + "\x00\x01\x00\x00"), "cache line of 65536 bytes is larger than a page"},
		"the native client": {false, say("RVO\n\x01\x01\x00\x00\x00\x10 0123456789"), "native format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := perftestEnd(perftestPlan(t, measure.Write, false, nil), test.client)
			err := peertest.Against(t.Context(), t, h, test.client, testkit.Limit, func(c net.Conn) {
				defer c.Close()
				test.then(c)
				c.SetDeadline(testkit.Deadline())
				io.Copy(io.Discard, c)
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

// TestPerftestDisagree uses different flags at the ends. perftest does not exchange them.
func TestPerftestDisagree(t *testing.T) {
	for name, test := range map[string]struct {
		op             measure.Op
		client, server func(*measure.Plan)
		want           string // in the error of either end
	}{
		"more queue pairs at the client":       {measure.Send, func(p *measure.Plan) { p.QPs = 2 }, nil, "-q"},
		"more queue pairs at the server":       {measure.Send, nil, func(p *measure.Plan) { p.QPs = 2 }, "-q"},
		"larger messages at the client":        {measure.Send, func(p *measure.Plan) { p.Size = 100 }, func(p *measure.Plan) { p.Size = 50 }, "-s 50"},
		"more messages at the server":          {measure.Send, nil, func(p *measure.Plan) { p.Iterations = 300 }, "-n 300"},
		"WRITEs larger than the peer's memory": {measure.Write, func(p *measure.Plan) { p.Size = 1 << 20 }, nil, "-s 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := perftestEnd(perftestPlan(t, test.op, false, test.client), true)
			server, _ := perftestEnd(perftestPlan(t, test.op, false, test.server), false)
			cerr, serr := peertest.Between(t, client, server)
			if cerr == nil || serr == nil || !strings.Contains(cerr.Error()+serr.Error(), test.want) {
				t.Errorf("client: %v\nserver: %v\nwant %q", cerr, serr, test.want)
			}
			t.Logf("client: %v\nserver: %v", cerr, serr)
		})
	}
}
