// The flags of the jobs "bench-…", which are perftest's flags, and the parameters by which the
// server gets the resulting plan.

package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/oob"
)

// Flags holds the values of the flags. The flags have perftest's long and short names.
type Flags struct {
	plan     measure.Plan // what the flags are about, but for the following
	size     kit.Size     // bytes of a message
	duration int          // seconds; 0 measures by iterations
	margin   int          // seconds at either end of duration that do not count; below 0 is perftest's rule
	gbits    bool
	chart    string // file; "" draws none
}

// Add defines the flags, with the defaults of a job.
func (o *Flags) Add(f *pflag.FlagSet, def measure.Plan) {
	o.plan, o.size = def, kit.Size(def.Size)
	p := &o.plan
	f.VarP(&o.size, "size", "s", "bytes of each message, such as 4096, 64K, 1M")
	f.IntVarP(&p.Iterations, "iters", "n", def.Iterations, "messages of each queue pair")
	f.IntVarP(&p.QPs, "qps", "q", 1, fmt.Sprintf("queue pairs, which share a completion queue: 1 to %d", oob.MaxEndpoints))
	f.IntVarP(&p.TxDepth, "tx-depth", "t", def.TxDepth, "requests outstanding on each queue pair, at most --iters")
	f.IntVarP(&p.RxDepth, "rx-depth", "r", def.RxDepth, "receives posted on each queue pair, at most --iters")
	f.IntVarP(&o.duration, "duration", "D", 0, "measure for this many seconds, instead of --iters")
	f.IntVarP(&o.margin, "margin", "f", -1, "seconds at the beginning and the end of --duration that are not measured (default: a quarter of it, in whole seconds)")
	f.Lookup("margin").DefValue = "0" // pflag prints no zero; the usage has the default
	f.BoolVarP(&p.All, "all", "a", false, "measure all sizes: the powers of two from 2 bytes to 8M")
	f.BoolVarP(&p.Both, "bidirectional", "b", false, "bandwidth in both directions at once")
	f.IntVarP(&p.Inline, "inline", "I", 0, "send messages of up to this many bytes inline")
	f.IntVarP(&p.PostList, "post-list", "l", 1, "post lists of this many requests")
	f.BoolVarP(&p.Events, "events", "e", false, "sleep until there are completions (default: poll)")
	f.IntVarP(&p.CQMod, "cq-mod", "Q", 0, "one signaled request per this many requests (default: 100; 1 for a single size above 8K; with --post-list the length of the list; at most --tx-depth)")
	f.BoolVar(&o.gbits, "report-gbits", false, "report bandwidth in Gb/s, 10^9 bits (default: MB/s, 2^20 bytes)")
	f.StringVar(&o.chart, "chart", "", "draw the results in this file, .svg or .html; with --all a curve")
}

// Table makes one end's Table. The error is a usage.Error if the flags contradict each other.
func (o *Flags) Table(s *kit.Session, client bool) (Table, error) {
	t := Table{Tracer: kit.Tracer{Logger: s.Logger}, Unit: unitOf(o.gbits)}
	var err error
	if t.Plan, err = o.settled(client); err != nil {
		return t, err
	}
	t.chart, err = newBenchChart(o.chart, t.Plan)
	return t, err
}

func unitOf(gbits bool) measure.Unit {
	if gbits {
		return measure.Gb
	}
	return measure.MB
}

// settled returns the plan of the flags.
func (o *Flags) settled(client bool) (measure.Plan, error) {
	p := o.plan
	if err := kit.CheckBuffer(o.size); err != nil {
		return p, err
	}
	p.Client, p.Size = client, int(min(o.size, math.MaxInt32))
	if o.duration < 0 || o.duration > math.MaxInt32 || o.margin > math.MaxInt32 {
		return p, usage.Errorf("%d seconds, with margins of %d, cannot be measured; try: --duration 5", o.duration, o.margin)
	}
	p.Duration, p.Margin = time.Duration(o.duration)*time.Second, time.Duration(o.margin)*time.Second
	if o.margin < 0 {
		p.Margin = measure.DefaultMargin(p.Duration)
	}
	if err := p.Settle(); err != nil {
		return p, usage.Errorf("%w", err)
	}
	if p.QPs > oob.MaxEndpoints {
		return p, usage.Errorf("a connection of %d queue pairs is not possible; try: --qps from 1 to %d", p.QPs, oob.MaxEndpoints)
	}
	return p, nil
}

// The parameters of the jobs. The parameters for sizes and queue pairs are in package kit.
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

// announce puts the plan into the parameters for the server.
func (e *endpoint) announce(to kit.Params) {
	p := &e.Plan
	for key, n := range map[string]int64{
		kit.ParamBytes: int64(p.Size), kit.ParamQPs: int64(p.QPs), paramIters: int64(p.Iterations), paramTXDepth: int64(p.TxDepth), paramRXDepth: int64(p.RxDepth),
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

// askedPlan returns a job's defaults, changed by the client's parameters. The client is not
// trusted: askedPlan checks each parameter, and then the whole plan.
func askedPlan(s *kit.Session, p measure.Plan) (_ measure.Plan, gbits bool, err error) {
	for _, field := range []struct {
		key  string
		into *int
	}{
		{kit.ParamBytes, &p.Size}, {kit.ParamQPs, &p.QPs}, {paramIters, &p.Iterations}, {paramTXDepth, &p.TxDepth}, {paramRXDepth, &p.RxDepth},
		{paramCQMod, &p.CQMod}, {paramPostList, &p.PostList}, {paramInline, &p.Inline},
	} {
		n, err := s.Params.Number(field.key, 0, math.MaxInt32)
		if err != nil {
			return p, false, err
		}
		*field.into = int(n)
	}
	for _, field := range []struct {
		key  string
		into *time.Duration
	}{{paramDuration, &p.Duration}, {paramMargin, &p.Margin}} {
		n, err := s.Params.Number(field.key, 0, math.MaxInt32)
		if err != nil {
			return p, false, err
		}
		*field.into = time.Duration(n) * time.Millisecond
	}
	for _, field := range []struct {
		key  string
		into *bool
	}{{paramAll, &p.All}, {paramBoth, &p.Both}, {paramEvents, &p.Events}, {paramGbits, &gbits}} {
		if *field.into, err = s.Params.Flag(field.key); err != nil {
			return p, false, err
		}
	}
	if err := p.Settle(); err != nil {
		return p, false, err
	}
	if p.QPs > oob.MaxEndpoints {
		return p, false, errors.Errorf("the client asks for %d queue pairs; try: rdma_client --qps from 1 to %d", p.QPs, oob.MaxEndpoints)
	}
	return p, gbits, within(&p, s.MaxSize)
}

// encodeResult returns a result as text for the peer.
func encodeResult(r measure.Result) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot happen: the numbers are finite
	}
	return text
}

// plausible returns an error for impossible figures, because the figures are printed and added.
func plausible(r measure.Result) bool {
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

// decodeResult reads the peer's result.
func decodeResult(text []byte, p *measure.Plan, size int) (r measure.Result, err error) {
	if err = json.Unmarshal(text, &r); err == nil && (r.Size != size || r.Iterations < 0 || r.Took < 0 || (r.Latency != nil) != p.Latency || (r.Bandwidth == nil) != p.Latency || !plausible(r)) {
		err = errors.Errorf("it does not have %d bytes, or is not the requested measurement", size)
	}
	if err != nil {
		return r, fmt.Errorf("the peer's result is impossible: %w; try: a peer of this program's version", err)
	}
	return r, nil
}
