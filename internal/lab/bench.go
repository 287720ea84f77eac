// The jobs "bench-…": they measure bandwidth and latency of an operation as perftest's
// programs do, with their flags and their table (internal/bench). The client chooses
// everything, the server follows. Over TCP the ends meet in a barrier before and after
// each size, and tell each other what they measured; an end that only lends its memory
// hears now and then that the other gets on.

package lab

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/rawverbs/rawverbs/internal/bench"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// layoutPage is what memory is laid out by, in bytes: both ends must have the same,
// whatever their hosts' pages are.
const layoutPage = 4096

// benchJobs are all of them: bench-send-bw, bench-send-lat, …
var benchJobs = makeBenchJobs()

func makeBenchJobs() []job {
	var made []job
	for _, op := range []bench.Op{bench.Send, bench.Write, bench.Read, bench.Atomic} {
		made = append(made, benchJob(op, false), benchJob(op, true))
	}
	return made
}

func benchJob(op bench.Op, latency bool) job {
	suffix, what := "bw", "bandwidth"
	if latency {
		suffix, what = "lat", "latency"
	}
	def := bench.Defaults(op, latency)
	def.Page, def.CacheLine = layoutPage, bench.CacheLine
	j := job{
		name:     fmt.Sprintf("bench-%v-%s", op, suffix),
		about:    fmt.Sprintf("measure the %s of %v, as perftest's ib_%v_%s does", what, op, op, suffix),
		flags:    benchFlags,
		letters:  benchLetters,
		defaults: benchDefaults(def),
	}
	j.client = func(o ClientOptions) (half, error) {
		plan, err := benchPlanOf(&o.JobOptions, def, true)
		if err != nil {
			return nil, err
		}
		chart, err := newBenchChart(o.Bench.Chart, plan)
		if err != nil {
			return nil, err
		}
		return &benchEnd{narrator: narrator{o.Logger}, plan: plan, port: o.IBPort, unit: o.Bench.unit(), gbits: o.Bench.Gbits, chart: chart}, nil
	}
	j.server = func(v visit) (half, error) {
		plan, gbits, err := v.benchPlan(def)
		if err != nil {
			return nil, err
		}
		return &benchEnd{narrator: narrator{v.Logger}, plan: plan, port: v.IBPort, unit: benchUnit(gbits)}, nil
	}
	return j
}

// benchEnd is one end.
type benchEnd struct {
	narrator
	plan  bench.Plan
	port  uint8 // of the device
	unit  bench.Unit
	gbits bool        // the client's wish
	chart *benchChart // nil draws none

	conn   *rc.Conn
	region *verbs.MR
}

// benchReads is how many READs and atomics may be in flight: as many as the device
// has, as with perftest.
const benchReads = 255

func (e *benchEnd) configure(cfg *rc.Config) {
	p := &e.plan
	cfg.QPs, cfg.MaxReads, cfg.Access = p.QPs, benchReads, p.Access()
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR, cfg.Cap.MaxInlineData = uint32(p.TxDepth), uint32(p.RxDepth), uint32(p.Inline)
	if p.Client {
		e.announce(cfg.Params)
	}
}

func (e *benchEnd) prepare(c *rc.Conn) (err error) {
	e.conn = c
	if e.plan.Client {
		if err := e.allowed(c.PeerHello().Params); err != nil {
			return err
		}
	}
	if err := e.carried(c.Device()); err != nil {
		return err
	}
	if e.region, err = c.AllocMR("for the messages", e.plan.Bytes(), e.plan.Access()); err != nil {
		return err
	}
	if e.plan.Op != bench.Send {
		c.Share(regionName, e.region)
	}
	return nil
}

// carried holds the messages against what the device carries.
func (e *benchEnd) carried(dev *verbs.Device) error {
	most, err := longestMessage(dev, max(e.port, 1))
	if err == nil && Size(e.plan.Size) > most {
		err = fmt.Errorf("a message of %v bytes is more than %s carries, %v; try: --size %v", Size(e.plan.Size), dev.Name(), most, most)
	}
	return err
}

// allowed holds the memory against what the server says it gives: before it is taken
// here.
func (e *benchEnd) allowed(server params) error {
	most, err := server.most()
	if err != nil {
		return err
	}
	return benchWithin(&e.plan, most)
}

func benchWithin(p *bench.Plan, most Size) error {
	if need := Size(p.Bytes()); need > most {
		return fmt.Errorf("messages of %v bytes on %d queue pairs, both ways, need a region of %v bytes at the server, which gives at most %v; try: a smaller --size or --qps, or rdma_server --max-size %v",
			Size(p.Size), p.QPs, need, most, need)
	}
	return nil
}

func (e *benchEnd) run(ctx context.Context, c *rc.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	life := c.Life()
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	run, err := e.newRun(c)
	if err != nil {
		return err
	}
	e.tellBegin()
	c.SetExchangeLogger(e.quieter().log) // or the table would be torn
	for _, size := range e.plan.Sizes() {
		if err := run.PostReceives(size); err != nil {
			return err
		}
		if err := c.Barrier(ctx, "bench "+strconv.Itoa(size)); err != nil {
			return err
		}
		progress(ctx)
		e.heartbeat(ctx, run)
		mine, err := run.Measure(ctx)
		if err != nil {
			return err
		}
		if err := e.compare(ctx, size, mine); err != nil {
			return err
		}
	}
	return e.writeChart()
}

func (e *benchEnd) newRun(c *rc.Conn) (*bench.Run, error) {
	q, err := benchQueues(c, e.region)
	if err != nil {
		return nil, err
	}
	if e.plan.Op != bench.Send {
		remote, err := peerRegion(c, e.plan.Bytes())
		if err != nil {
			return nil, err
		}
		for i := range e.plan.QPs {
			q.Remote = append(q.Remote, bench.Remote{Addr: remote.Addr + uint64(e.plan.RemoteOffset(i)), RKey: remote.RKey})
		}
	}
	return bench.New(e.plan, q)
}

// benchQueues is what a run works on, without the peer's memory.
func benchQueues(c *rc.Conn, memory *verbs.MR) (bench.Queues, error) {
	attr, err := c.Device().Query()
	return bench.Queues{QPs: c.QPs(), SendCQ: c.SendCQ(), RecvCQ: c.RecvCQ(), Memory: memory, KernelWorks: attr.VendorID == verbs.VendorRXE}, err
}

// Notes: what an end measured, or that it gets on.
const (
	noteBenchResult = "bench result"
	noteBenchAlive  = "bench alive"

	aliveEvery = time.Second
)

// heartbeat has the run say that the job moves, and tell it to a peer that only lends
// its memory and would not know.
func (e *benchEnd) heartbeat(ctx context.Context, run *bench.Run) {
	peer := e.plan
	peer.Client = !peer.Client
	passive, told := peer.Passive(), time.Now()
	run.Alive = func() {
		progress(ctx)
		if passive && time.Since(told) > aliveEvery {
			told = time.Now()
			_ = e.conn.SendNote(ctx, oob.Note{Name: noteBenchAlive}) // what fails here fails the run by itself
		}
	}
}

// compare tells the peer what this end measured, if it did, hears the peer's, and
// tells of both.
func (e *benchEnd) compare(ctx context.Context, size int, mine bench.Result) error {
	peer := e.plan
	peer.Client = !peer.Client
	if !e.plan.Passive() {
		if err := e.conn.SendNote(ctx, oob.Note{Name: noteBenchResult, Data: encodeBenchResult(mine)}); err != nil {
			return err
		}
	}
	var theirs bench.Result
	for heard := peer.Passive(); !heard; {
		n, err := e.conn.RecvNote(ctx, "")
		if err != nil {
			return err
		}
		progress(ctx)
		switch n.Name {
		case noteBenchAlive:
		case noteBenchResult:
			if theirs, err = decodeBenchResult(n.Data, &e.plan, size); err != nil {
				return err
			}
			heard = true
		default:
			return fmt.Errorf("the peer sent the note %q, and %q is next; try: a peer of this program's version", n.Name, noteBenchResult)
		}
	}
	switch {
	case e.plan.Passive():
		e.tellResult("peer", theirs)
	case e.reports():
		e.tellResult("both", bench.Sum(mine, theirs))
	default:
		e.tellResult("this end", mine)
	}
	return nil
}

// tellBegin tells what is going to be measured, and the table's header.
func (e *benchEnd) tellBegin() {
	p := &e.plan
	tell(e.log, "data", "bench.begun", "", "measure; of the requests none is told", slog.String("op", p.Op.String()), slog.Bool("latency", p.Latency),
		slog.Int("size", p.Size), slog.Bool("all", p.All), slog.Bool("bidirectional", p.Both), slog.Int("iters", p.Iterations),
		slog.Duration("duration", p.Duration), slog.Duration("margin", p.Margin),
		slog.Int("qps", p.QPs), slog.Int("tx_depth", p.TxDepth), slog.Int("rx_depth", p.RxDepth), slog.Int("cq_mod", p.CQMod),
		slog.Int("post_list", p.PostList), slog.Int("inline", p.Inline), slog.Bool("events", p.Events))
	tell(e.log, "data", "bench.header", "", p.Header(e.unit))
}

// tellResult tells the table's row, and all figures.
func (e *benchEnd) tellResult(by string, r bench.Result) {
	attrs := []slog.Attr{slog.String("by", by), slog.Int("size", r.Size), slog.Int64("iters", r.Iterations), slog.Duration("took", r.Took)}
	if b := r.Bandwidth; b != nil {
		attrs = append(attrs, slog.String("unit", e.unit.Name), slog.Float64("peak", rounded(e.unit.Of(b.Peak))), slog.Float64("average", rounded(e.unit.Of(b.Average))),
			slog.Float64("messages_per_s", rounded(b.Messages)), slog.Float64("peak_bytes_per_s", rounded(b.Peak)), slog.Float64("bytes_per_s", rounded(b.Average)))
	}
	if l := r.Latency; l != nil {
		var percentiles []any
		for _, q := range bench.Percentiles() {
			percentiles = append(percentiles, slog.Float64(q, rounded(l.Percentiles[q])))
		}
		attrs = append(attrs, slog.Int64("samples", l.Samples), slog.Float64("t_min_us", rounded(l.Min)), slog.Float64("t_max_us", rounded(l.Max)),
			slog.Float64("t_longest_us", rounded(l.Longest)), slog.Float64("t_typical_us", rounded(l.Typical)), slog.Float64("t_avg_us", rounded(l.Average)),
			slog.Float64("t_stdev_us", rounded(l.Stdev)), slog.Float64("per_s", rounded(l.Rate)), slog.Group("percentiles_us", percentiles...))
	}
	tell(e.log, "data", "bench.result", "", e.plan.Row(r, e.unit), attrs...)
	e.chart.add(r)
}

// reports says whether each end tells the other what it has measured, so that both
// know the sum.
func (e *benchEnd) reports() bool {
	return e.plan.Both && (e.plan.Op != bench.Send || e.plan.Duration == 0)
}

// writeChart draws what was measured, if it is to be.
func (e *benchEnd) writeChart() error {
	if e.chart == nil {
		return nil
	}
	if len(e.chart.results) == 0 {
		tell(e.log, "info", "bench.chart", "", "no chart: this end has only lent its memory, and the other keeps its figures to itself", slog.String("file", ""))
		return nil
	}
	if err := e.chart.write(e.unit); err != nil {
		return fmt.Errorf("--chart: %w", err)
	}
	tell(e.log, "info", "bench.chart", "", "the chart is in "+e.chart.file, slog.String("file", e.chart.file))
	return nil
}
