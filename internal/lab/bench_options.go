// The flags of the jobs "bench-…", which are perftest's, and how the server comes to
// know the plan that they make.

package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/internal/bench"
	"github.com/rawverbs/rawverbs/oob"
)

// BenchOptions are the client's choices for the jobs that measure; the bytes of a
// message are JobOptions.Size, the queue pairs Bulk.QPs.
type BenchOptions struct {
	Iters    int // messages of each queue pair
	TXDepth  int // requests outstanding
	RXDepth  int // receives posted
	Duration int // seconds; 0 measures by Iters
	Margin   int // seconds at either end of Duration that do not count; below 0 is perftest's
	CQMod    int // one request of so many completes; 0 is perftest's rule
	PostList int // requests of each post
	Inline   int // bytes up to which messages are inline
	All      bool
	Both     bool // both directions
	Events   bool // sleep until there are completions, in place of polling
	Gbits    bool
	Chart    string // file; "" draws none
}

// benchFlags are perftest's, by their long names, and benchLetters its short ones.
var benchFlags = []string{"size", "iters", "qps", "tx-depth", "rx-depth", "duration", "margin", "all", "bidirectional", "inline", "post-list", "events", "cq-mod", "report-gbits", "chart"}

var benchLetters = map[string]string{
	"size": "s", "iters": "n", "qps": "q", "tx-depth": "t", "rx-depth": "r", "duration": "D", "margin": "f", "all": "a",
	"bidirectional": "b", "inline": "I", "post-list": "l", "events": "e", "cq-mod": "Q",
}

func (b *BenchOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&b.Iters, "iters", 1000, "messages of each queue pair (bench-write-bw: 5000; srq-pingpong: of all together)")
	f.IntVar(&b.TXDepth, "tx-depth", 128, "requests outstanding on each queue pair, at most --iters (latency: 1)")
	f.IntVar(&b.RXDepth, "rx-depth", 512, "receives posted on each queue pair, at most --iters (pingpong: 500, whatever --iters is)")
	f.IntVar(&b.Duration, "duration", 0, "measure for so many seconds, in place of --iters")
	f.IntVar(&b.Margin, "margin", -1, "seconds at the beginning and at the end of --duration that do not count (default: a quarter of it, in whole seconds)")
	f.BoolVar(&b.All, "all", false, "measure all sizes: the powers of two from 2 bytes to 8M")
	f.BoolVar(&b.Both, "bidirectional", false, "bandwidth in both directions at once")
	f.IntVar(&b.Inline, "inline", 0, "send messages of up to so many bytes inline")
	f.IntVar(&b.PostList, "post-list", 1, "post lists of so many requests")
	f.BoolVar(&b.Events, "events", false, "sleep until there are completions (default: poll)")
	f.IntVar(&b.CQMod, "cq-mod", 0, "have one request of so many complete (default: 100; for one size above 8K each; with --post-list the list; at most --tx-depth)")
	f.BoolVar(&b.Gbits, "report-gbits", false, "tell bandwidth in Gb/s, 10^9 bits (default: MB/s, 2^20 bytes)")
	f.StringVar(&b.Chart, "chart", "", "draw the results in this file, .svg or .html; with --all a curve")
}

// benchDefaults are a job's own.
func benchDefaults(p bench.Plan) map[string]string {
	return map[string]string{
		"size": Size(p.Size).String(), "iters": strconv.Itoa(p.Iterations), "tx-depth": strconv.Itoa(p.TxDepth), "rx-depth": strconv.Itoa(p.RxDepth),
	}
}

func benchUnit(gbits bool) bench.Unit {
	if gbits {
		return bench.Gb
	}
	return bench.MB
}

func (b *BenchOptions) unit() bench.Unit { return benchUnit(b.Gbits) }

// benchPlanOf is what an end's flags make of a job's defaults.
func benchPlanOf(o *JobOptions, p bench.Plan, client bool) (bench.Plan, error) {
	b := &o.Bench
	p.Client = client
	p.Size, p.QPs = int(min(o.Size, math.MaxInt32)), o.Bulk.QPs
	p.Iterations, p.TxDepth, p.RxDepth = b.Iters, b.TXDepth, b.RXDepth
	p.CQMod, p.PostList, p.Inline = b.CQMod, b.PostList, b.Inline
	p.All, p.Both, p.Events = b.All, b.Both, b.Events
	if b.Duration < 0 || b.Duration > math.MaxInt32 || b.Margin > math.MaxInt32 {
		return p, Usagef("%d seconds, with margins of %d, cannot be measured; try: --duration 5", b.Duration, b.Margin)
	}
	p.Duration, p.Margin = time.Duration(b.Duration)*time.Second, time.Duration(b.Margin)*time.Second
	if b.Margin < 0 {
		p.Margin = bench.DefaultMargin(p.Duration)
	}
	if err := p.Settle(); err != nil {
		return p, UsageError{err}
	}
	if p.QPs > oob.MaxEndpoints {
		return p, Usagef("a connection of %d queue pairs cannot be had; try: --qps from 1 to %d", p.QPs, oob.MaxEndpoints)
	}
	return p, nil
}

// The parameters of the jobs; those of sizes and queue pairs are as elsewhere.
const (
	paramIters    = "iters"
	paramTXDepth  = "tx_depth"
	paramRXDepth  = "rx_depth"
	paramDuration = "duration_ms"
	paramMargin   = "margin_ms"
	paramCQMod    = "cq_mod"
	paramPostList = "post_list"
	paramInline   = "inline"
	paramAll      = "all"
	paramBoth     = "bidirectional"
	paramEvents   = "events"
	paramGbits    = "gbits"
)

// announce tells the plan to the server.
func (e *benchEnd) announce(to params) {
	p := &e.plan
	for key, n := range map[string]int64{
		paramBytes: int64(p.Size), paramQPs: int64(p.QPs), paramIters: int64(p.Iterations), paramTXDepth: int64(p.TxDepth), paramRXDepth: int64(p.RxDepth),
		paramDuration: p.Duration.Milliseconds(), paramMargin: p.Margin.Milliseconds(),
		paramCQMod: int64(p.CQMod), paramPostList: int64(p.PostList), paramInline: int64(p.Inline),
	} {
		to[key] = strconv.FormatInt(n, 10)
	}
	for key, yes := range map[string]bool{paramAll: p.All, paramBoth: p.Both, paramEvents: p.Events, paramGbits: e.gbits} {
		if yes {
			to[key] = "1"
		}
	}
}

// benchPlan is what the client's parameters make of a job's defaults: a stranger's
// words, so each is checked, and all of them together.
func (v *visit) benchPlan(p bench.Plan) (_ bench.Plan, gbits bool, err error) {
	for _, field := range []struct {
		key  string
		into *int
	}{
		{paramBytes, &p.Size}, {paramQPs, &p.QPs}, {paramIters, &p.Iterations}, {paramTXDepth, &p.TxDepth}, {paramRXDepth, &p.RxDepth},
		{paramCQMod, &p.CQMod}, {paramPostList, &p.PostList}, {paramInline, &p.Inline},
	} {
		n, err := v.params.number(field.key, 0, math.MaxInt32)
		if err != nil {
			return p, false, err
		}
		*field.into = int(n)
	}
	for _, field := range []struct {
		key  string
		into *time.Duration
	}{{paramDuration, &p.Duration}, {paramMargin, &p.Margin}} {
		n, err := v.params.number(field.key, 0, math.MaxInt32)
		if err != nil {
			return p, false, err
		}
		*field.into = time.Duration(n) * time.Millisecond
	}
	for _, field := range []struct {
		key  string
		into *bool
	}{{paramAll, &p.All}, {paramBoth, &p.Both}, {paramEvents, &p.Events}, {paramGbits, &gbits}} {
		if *field.into, err = v.params.flag(field.key); err != nil {
			return p, false, err
		}
	}
	if err := p.Settle(); err != nil {
		return p, false, err
	}
	if p.QPs > oob.MaxEndpoints {
		return p, false, fmt.Errorf("the client asks for %d queue pairs; try: rdma_client --qps from 1 to %d", p.QPs, oob.MaxEndpoints)
	}
	return p, gbits, benchWithin(&p, v.MaxSize)
}

// encodeBenchResult is a result as the peer is told of it.
func encodeBenchResult(r bench.Result) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers, none of which is infinite
	}
	return text
}

// plausible refuses figures that nobody measures: they are to be shown, and summed.
func plausible(r bench.Result) bool {
	var figures []float64
	if b := r.Bandwidth; b != nil {
		figures = append(figures, b.Peak, b.Average, b.Messages)
	}
	if l := r.Latency; l != nil {
		figures = append(figures, l.Min, l.Max, l.Longest, l.Typical, l.Average, l.Stdev, l.Rate)
		figures = slices.AppendSeq(figures, maps.Values(l.Percentiles))
	}
	return !slices.ContainsFunc(figures, func(f float64) bool { return !(f >= 0 && f < 1e15) })
}

// decodeBenchResult reads the peer's.
func decodeBenchResult(text []byte, p *bench.Plan, size int) (r bench.Result, err error) {
	if err = json.Unmarshal(text, &r); err == nil && (r.Size != size || r.Iterations < 0 || r.Took < 0 || (r.Latency != nil) != p.Latency || (r.Bandwidth == nil) != p.Latency || !plausible(r)) {
		err = fmt.Errorf("it is not of %d bytes, or not what was to be measured", size)
	}
	if err != nil {
		return r, fmt.Errorf("the peer's result cannot be: %w; try: a peer of this program's version", err)
	}
	return r, nil
}
