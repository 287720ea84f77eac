package lab

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/bench"
	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// openSoft opens soft0 for a test.
func openSoft(t *testing.T) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// perftestEnd is one end for a test, and what it showed.
func perftestEnd(plan bench.Plan, client bool) (*perftest, *[]bench.Result) {
	plan.Client = client
	shown := new([]bench.Result)
	return &perftest{
		narrator: narrator{slog.New(slog.DiscardHandler)}, plan: plan, unit: bench.MB,
		show: func(r bench.Result) { *shown = append(*shown, r) },
	}, shown
}

const testLimit = 2 * time.Second

// between runs a client's half with a server's.
func between(t *testing.T, client, server half) (cerr, serr error) {
	t.Helper()
	dev := openSoft(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	config := func(h half) rc.Config {
		cfg := rc.Config{Device: dev, Prepare: h.prepare, Timeout: testLimit}
		h.configure(&cfg)
		return cfg
	}
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.Config{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var serving sync.WaitGroup
	serving.Go(func() {
		in, err := l.Accept(ctx)
		if err != nil {
			serr = err
			return
		}
		conn, err := in.Connect(ctx, config(server))
		if err != nil {
			serr = err
			return
		}
		serr = runJob(ctx, conn, server, testLimit)
	})
	conn, cerr := rc.Dial(ctx, l.Addr().String(), config(client))
	if cerr == nil {
		cerr = runJob(ctx, conn, client, testLimit)
	}
	serving.Wait()
	return cerr, serr
}

// perftestPlan is the program's default, but short.
func perftestPlan(t *testing.T, op bench.Op, latency bool, change func(*bench.Plan)) bench.Plan {
	t.Helper()
	p := bench.Defaults(op, latency)
	p.Iterations = 200
	if change != nil {
		change(&p)
	}
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPerftestBetweenTwo: the two roles fit each other.
func TestPerftestBetweenTwo(t *testing.T) {
	for name, test := range map[string]struct {
		op      bench.Op
		latency bool
		change  func(*bench.Plan)
	}{
		"send-bw":                   {bench.Send, false, nil},
		"write-bw":                  {bench.Write, false, nil},
		"read-bw":                   {bench.Read, false, nil},
		"atomic-bw":                 {bench.Atomic, false, nil},
		"send-lat":                  {bench.Send, true, nil},
		"write-lat":                 {bench.Write, true, nil},
		"read-lat":                  {bench.Read, true, nil},
		"atomic-lat":                {bench.Atomic, true, nil},
		"send-bw, several":          {bench.Send, false, func(p *bench.Plan) { p.QPs, p.Size = 3, 100 }},
		"write-bw, several":         {bench.Write, false, func(p *bench.Plan) { p.QPs, p.Size = 3, 100 }},
		"send-bw, both ways":        {bench.Send, false, func(p *bench.Plan) { p.Both, p.Size = true, 1000 }},
		"write-bw, both ways":       {bench.Write, false, func(p *bench.Plan) { p.Both = true }},
		"read-bw, both ways":        {bench.Read, false, func(p *bench.Plan) { p.Both, p.QPs = true, 2 }},
		"atomic-bw, both ways":      {bench.Atomic, false, func(p *bench.Plan) { p.Both = true }},
		"send-bw, all sizes":        {bench.Send, false, func(p *bench.Plan) { p.All, p.Iterations = true, 5 }},
		"write-bw, all sizes":       {bench.Write, false, func(p *bench.Plan) { p.All, p.Iterations = true, 5 }},
		"write-bw, all, both ways":  {bench.Write, false, func(p *bench.Plan) { p.All, p.Both, p.Iterations = true, true, 5 }},
		"send-bw, all, both ways":   {bench.Send, false, func(p *bench.Plan) { p.All, p.Both, p.Iterations = true, true, 5 }},
		"send-lat, all sizes":       {bench.Send, true, func(p *bench.Plan) { p.All, p.Iterations = true, 5 }},
		"write-lat, all sizes":      {bench.Write, true, func(p *bench.Plan) { p.All, p.Iterations = true, 5 }},
		"read-lat, all sizes":       {bench.Read, true, func(p *bench.Plan) { p.All, p.Iterations = true, 5 }},
		"send-bw, duration":         {bench.Send, false, func(p *bench.Plan) { p.Duration = time.Second / 2 }},
		"write-bw, duration":        {bench.Write, false, func(p *bench.Plan) { p.Duration = time.Second / 2 }},
		"write-bw, both, duration":  {bench.Write, false, func(p *bench.Plan) { p.Both, p.Duration = true, time.Second/2 }},
		"send-bw, both, duration":   {bench.Send, false, func(p *bench.Plan) { p.Both, p.Duration = true, time.Second/2 }},
		"send-lat, duration":        {bench.Send, true, func(p *bench.Plan) { p.Duration = time.Second / 2 }},
		"write-lat, duration":       {bench.Write, true, func(p *bench.Plan) { p.Duration = time.Second / 2 }},
		"read-lat, long for a wait": {bench.Read, true, func(p *bench.Plan) { p.Duration = testLimit * 3 / 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := perftestPlan(t, test.op, test.latency, test.change)
			client, showsC := perftestEnd(plan, true)
			server, showsS := perftestEnd(plan, false)
			cerr, serr := between(t, client, server)
			if cerr != nil || serr != nil {
				t.Fatalf("client: %v; server: %v", cerr, serr)
			}
			if got, want := len(*showsC), len(plan.Sizes()); got != want {
				t.Errorf("the client shows %d results, want %d", got, want)
			}
			silent := plan.Latency && server.plan.Passive()
			if want := map[bool]int{true: 0, false: 1}[silent]; want > len(*showsS) || silent && len(*showsS) > 0 {
				t.Errorf("the server shows %d results", len(*showsS))
			}
			for _, r := range append(*showsC, *showsS...) {
				if want := int64(plan.Iterations * plan.QPs); plan.Duration == 0 && r.Iterations != want || r.Iterations < 1 {
					t.Errorf("%d iterations, want %d", r.Iterations, want)
				}
				if b := r.Bandwidth; b != nil && (b.Average <= 0 || b.Messages <= 0) {
					t.Errorf("bandwidth %+v", *b)
				}
			}
		})
	}
}
