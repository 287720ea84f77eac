package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// ends are the two ends of a plan, connected on soft0.
type ends struct {
	client, server         *Run
	clientConn, serverConn *rc.Conn
}

func connect(t *testing.T, plan Plan) ends {
	t.Helper()
	if err := plan.Settle(); err != nil {
		t.Fatal(err)
	}
	dev, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	config := func() (rc.Config, **verbs.MR) {
		mr := new(*verbs.MR)
		return rc.Config{
			Device: dev, QPs: plan.QPs, Access: plan.Access(),
			Cap: verbs.QPCap{MaxSendWR: uint32(plan.TxDepth), MaxRecvWR: uint32(plan.RxDepth), MaxInlineData: uint32(plan.Inline)},
			Prepare: func(c *rc.Conn) (err error) {
				if *mr, err = c.AllocMR("bench", plan.Bytes(), plan.Access()); err == nil {
					c.Share("bench", *mr)
				}
				return err
			},
		}, mr
	}
	run := func(c *rc.Conn, mr *verbs.MR, client bool) *Run {
		p := plan
		p.Client = client
		q := Queues{QPs: c.QPs(), SendCQ: c.QP().SendCQ(), RecvCQ: c.QP().RecvCQ(), Memory: mr}
		peer, _ := c.PeerRegion("bench")
		for i := range plan.QPs {
			q.Remote = append(q.Remote, Remote{peer.Addr + uint64(plan.RemoteOffset(i)), peer.RKey})
		}
		r, err := New(p, q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	clientConfig, clientMR := config()
	serverConfig, serverMR := config()
	listener, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	e := ends{}
	var accepting sync.WaitGroup
	var serverErr error
	accepting.Go(func() {
		in, err := listener.Accept(t.Context())
		if err == nil {
			_, err = in.Hello(t.Context())
		}
		if err == nil {
			e.serverConn, err = in.Connect(t.Context(), serverConfig)
		}
		serverErr = err
	})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	e.clientConn, err = rc.Dial(t.Context(), "127.0.0.1:"+port, clientConfig)
	accepting.Wait()
	if err = errors.Join(err, serverErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.clientConn.Close(), e.serverConn.Close()); err != nil {
			t.Error(err)
		}
	})
	e.client, e.server = run(e.clientConn, *clientMR, true), run(e.serverConn, *serverMR, false)
	return e
}

// measure measures a size at both ends.
func (e ends) measure(t *testing.T, size int) (client, server Result, err error) {
	for _, r := range []*Run{e.client, e.server} {
		if err := r.PostReceives(size); err != nil {
			return client, server, err
		}
	}
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	var both sync.WaitGroup
	var serverErr error
	both.Go(func() {
		if server, serverErr = e.server.Measure(ctx); serverErr != nil {
			cancel()
		}
	})
	client, err = e.client.Measure(ctx)
	if err != nil {
		cancel()
	}
	both.Wait()
	return client, server, errors.Join(err, serverErr)
}

func plan(op Op, latency bool, change func(*Plan)) Plan {
	p := Defaults(op, latency)
	p.Iterations = 300
	if latency {
		p.Iterations = 100
	}
	if change != nil {
		change(&p)
	}
	return p
}

var shapes = []struct {
	name string
	plan Plan
}{
	{"send, bandwidth", plan(Send, false, nil)},
	{"write, bandwidth", plan(Write, false, nil)},
	{"read, bandwidth", plan(Read, false, nil)},
	{"atomic, bandwidth", plan(Atomic, false, nil)},
	{"send, latency", plan(Send, true, nil)},
	{"write, latency", plan(Write, true, nil)},
	{"read, latency", plan(Read, true, nil)},
	{"atomic, latency", plan(Atomic, true, nil)},
	{"send, small and moderated", plan(Send, false, func(p *Plan) { p.Size, p.Iterations = 64, 1001 })},
	{"write, small and moderated", plan(Write, false, func(p *Plan) { p.Size, p.Iterations, p.CQMod = 1, 1001, 7 })},
	{"write, one at a time", plan(Write, false, func(p *Plan) { p.TxDepth, p.Size = 1, 100 })},
	{"write, lists", plan(Write, false, func(p *Plan) { p.Size, p.PostList, p.Iterations = 1000, 16, 480 })},
	{"send, lists", plan(Send, false, func(p *Plan) { p.Size, p.PostList, p.Iterations, p.CQMod = 1000, 16, 480, 4 })},
	{"send, several queue pairs", plan(Send, false, func(p *Plan) { p.QPs, p.Size = 3, 3000 })},
	{"read, several queue pairs", plan(Read, false, func(p *Plan) { p.QPs, p.Size, p.CQMod = 3, 3000, 10 })},
	{"atomic, several queue pairs", plan(Atomic, false, func(p *Plan) { p.QPs = 2 })},
	{"send, few receives", plan(Send, false, func(p *Plan) { p.RxDepth, p.Size = 5, 2000 })},
	{"send, both ways", plan(Send, false, func(p *Plan) { p.Both, p.Size = true, 2000 })},
	{"send, both ways, several queue pairs", plan(Send, false, func(p *Plan) { p.Both, p.Size, p.QPs = true, 2000, 2 })},
	{"write, both ways", plan(Write, false, func(p *Plan) { p.Both = true })},
	{"read, both ways", plan(Read, false, func(p *Plan) { p.Both, p.Size = true, 100 })},
	{"send, by events", plan(Send, false, func(p *Plan) { p.Events = true })},
	{"write, by events", plan(Write, false, func(p *Plan) { p.Events, p.Size = true, 100 })},
	{"send latency, by events", plan(Send, true, func(p *Plan) { p.Events = true })},
	{"read latency, by events", plan(Read, true, func(p *Plan) { p.Events = true })},
	{"send latency, few signaled", plan(Send, true, func(p *Plan) { p.TxDepth, p.CQMod = 10, 7 })},
	{"send latency, one receive", plan(Send, true, func(p *Plan) { p.RxDepth = 1 })},
	{"send latency, few receives", plan(Send, true, func(p *Plan) { p.RxDepth, p.CQMod, p.TxDepth = 17, 3, 5 })},
	{"send, inline", plan(Send, false, func(p *Plan) { p.Size, p.Inline = 32, 64 })},
	{"write latency, inline", plan(Write, true, func(p *Plan) { p.Inline = 64 })},
	{"write latency, a large message", plan(Write, true, func(p *Plan) { p.Size = 70_001 })},
	{"send, a large message", plan(Send, false, func(p *Plan) { p.Size, p.Iterations = 1<<20, 20 })},
	{"the fewest iterations", plan(Send, false, func(p *Plan) { p.Iterations = 5 })},
	{"the fewest iterations, latency", plan(Send, true, func(p *Plan) { p.Iterations = 5 })},
}

// TestNaps checks that an end naps if both ends poll and the kernel's device is busy for longer
// than a nap.
func TestNaps(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   Plan
		kernel bool
		want   bool
	}{
		{"send", plan(Send, false, nil), true, true},
		{"both write", plan(Write, false, func(p *Plan) { p.Both = true }), true, true},
		{"a device of its own", plan(Send, false, nil), false, false},
		{"one end polls", plan(Write, false, nil), true, false},
		{"latency", plan(Send, true, func(p *Plan) { p.Size = 1 << 20 }), true, false},
		{"short messages", plan(Send, false, func(p *Plan) { p.Size = 64 }), true, false},
		{"one outstanding", plan(Send, false, func(p *Plan) { p.TxDepth, p.RxDepth = 1, 1 }), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := connect(t, c.plan)
			for _, r := range []*Run{e.client, e.server} {
				r.on.KernelWorks = c.kernel
				if err := r.PostReceives(c.plan.Size); err != nil {
					t.Fatal(err)
				}
				if r.naps != c.want {
					t.Errorf("client %v: naps is %v, want %v", r.Client, r.naps, c.want)
				}
			}
		})
	}
}

// TestMeasure measures with each plan and checks the counts.
func TestMeasure(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			e := connect(t, s.plan)
			for range 2 { // the run is used twice
				client, server, err := e.measure(t, s.plan.Size)
				if err != nil {
					t.Fatal(err)
				}
				s.plan.Client = true
				checkResult(t, "client", s.plan, client)
				s.plan.Client = false
				if s.plan.Passive() {
					if server.Iterations != 0 && !s.plan.Latency {
						t.Errorf("a passive server counted %d", server.Iterations)
					}
					continue
				}
				checkResult(t, "server", s.plan, server)
			}
		})
	}
}

func checkResult(t *testing.T, who string, p Plan, r Result) {
	t.Helper()
	if want := int64(p.Iterations) * int64(p.QPs); p.Duration == 0 && r.Iterations != want {
		t.Errorf("%s: %d iterations, want %d", who, r.Iterations, want)
	}
	if r.Took <= 0 || r.Size != p.Size || r.Iterations <= 0 {
		t.Errorf("%s: %+v", who, r)
	}
	if p.Latency != (r.Latency != nil) || p.Latency == (r.Bandwidth != nil) {
		t.Fatalf("%s: %+v", who, r)
	}
	if l := r.Latency; l != nil {
		if l.Min <= 0 || l.Min > l.Typical || l.Typical > l.Percentiles["99"]*1.001 || l.Max > l.Longest || l.Average <= 0 || l.Rate <= 0 {
			t.Errorf("%s: %+v", who, *l)
		}
		if p.Duration == 0 && l.Samples != int64(p.Iterations)-1 {
			t.Errorf("%s: %d samples of %d iterations", who, l.Samples, p.Iterations)
		}
		return
	}
	b := r.Bandwidth
	if b.Average <= 0 || b.Messages <= 0 || p.Peak() && b.Peak < b.Average*0.999 || !p.Peak() && b.Peak != 0 {
		t.Errorf("%s: %+v, peak %v", who, *b, p.Peak())
	}
}

// TestStop checks that waiting for a silent peer ends with ctx, and that the error is the
// cause.
func TestStop(t *testing.T) {
	why := errors.New("no progress")
	for _, p := range []Plan{
		plan(Send, false, nil), plan(Send, true, nil), plan(Write, true, nil),
		plan(Send, false, func(p *Plan) { p.Both = true }), plan(Send, false, func(p *Plan) { p.Events = true }),
	} {
		t.Run(fmt.Sprintf("%v, latency %v, both %v, events %v", p.Op, p.Latency, p.Both, p.Events), func(t *testing.T) {
			e := connect(t, p)
			if err := e.server.PostReceives(p.Size); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(testkit.Context(t))
			go func() {
				time.Sleep(testkit.Moment)
				cancel(why)
			}()
			if _, err := e.server.Measure(ctx); !errors.Is(err, why) {
				t.Errorf("the error is %v, want %v", err, why)
			}
		})
	}
}

// TestFailure checks that a failed request ends the measurement with its completion's error.
func TestFailure(t *testing.T) {
	p := plan(Write, false, nil)
	e := connect(t, p)
	e.client.on.Remote[0].RKey++
	if err := e.client.PostReceives(p.Size); err != nil {
		t.Fatal(err)
	}
	_, err := e.client.Measure(t.Context())
	var failed *verbs.WCError
	if !errors.As(err, &failed) || failed.Status != verbs.WCRemAccessErr {
		t.Errorf("the error is %v, want %v", err, verbs.WCRemAccessErr)
	}
}

// TestTable compares the table with perftest's.
func TestTable(t *testing.T) {
	for _, test := range []struct {
		plan   Plan
		result Result
		unit   Unit
		header string
		row    string
	}{
		{Defaults(Write, false), Result{Size: 65536, Iterations: 5000, Bandwidth: &Bandwidth{47.47 * (1 << 20), 43.11 * (1 << 20), 690}}, MB,
			"#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]", "65536 5000 47.47 43.11 0.000690"},
		{Defaults(Write, false), Result{Size: 2, Iterations: 5000, Bandwidth: &Bandwidth{0, 1e6, 500e3}}, Gb,
			"#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]", "2 5000 0.000000 0.008000 0.500000"},
		{Defaults(Send, true), Result{Size: 2, Iterations: 1000, Latency: &Latency{Min: 29.54, Max: 2750.66, Typical: 33.52, Average: 63.84, Stdev: 194.18,
			Percentiles: map[string]float64{"99": 1277.96, "99.9": 2750.66}}}, MB,
			"#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]",
			"2 1000 29.54 2750.66 33.52 63.84 194.18 1277.96 2750.66"},
		{plan(Send, true, func(p *Plan) { p.Duration = 1 }), Result{Size: 2, Iterations: 1000, Latency: &Latency{Average: 12.5, Rate: 40000}}, MB,
			"#bytes #iterations t_avg[usec] tps average", "2 1000 12.50 40000.00"},
	} {
		if got := strings.Join(strings.Fields(test.plan.Header(test.unit)), " "); got != test.header {
			t.Errorf("the header is\n%s\nwant\n%s", got, test.header)
		}
		if got := strings.Join(strings.Fields(test.plan.Row(test.result, test.unit)), " "); got != test.row {
			t.Errorf("the row is\n%s\nwant\n%s", got, test.row)
		}
	}
}
