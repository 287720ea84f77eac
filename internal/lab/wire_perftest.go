// The jobs of --wire perftest: either end of ib_send_bw, ib_write_lat and their kind,
// as Debian 12 ships them. What the ends tell each other is in
// wire_perftest_exchange.go, the measuring is internal/bench's; this file has the ends
// meet where perftest's do.
//
//	bandwidth of SEND              all other bandwidth            latency
//
//	for each size:                 in both directions,            for each size:
//	  they meet                    for each size:                   they meet, by SEND
//	  the client sends, or both      they meet                      both measure; by READ
//	  reports, if both               both measure                   and ATOMIC the client
//	  they meet, if all sizes        they meet, if all sizes
//	                                 reports
//	                               else, when the client has
//	                               measured: they meet, reports
//
// and at the very end they meet, but after WRITE's latency: there each end leaves.

package lab

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/bench"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// perftestJobs have the names, the flags and the tables of the native jobs that measure.
var perftestJobs = makePerftestJobs()

func makePerftestJobs() []job {
	var made []job
	for _, op := range []bench.Op{bench.Send, bench.Write, bench.Read, bench.Atomic} {
		made = append(made, perftestJob(op, false), perftestJob(op, true))
	}
	return made
}

func perftestJob(op bench.Op, latency bool) job {
	j := benchJob(op, latency)
	j.about = "either end of " + strings.ReplaceAll(strings.Replace(j.name, "bench", "ib", 1), "-", "_")
	j.letters = maps.Clone(benchLetters)
	j.letters["mtu"], j.letters["ib-port"] = "m", "i"
	def := bench.Defaults(op, latency)
	j.client = func(o ClientOptions) (half, error) { return newPerftest(&o.Options, &o.JobOptions, def, true) }
	j.server = func(v visit) (half, error) { return newPerftest(&v.Options, &v.JobOptions, def, false) }
	return j
}

func newPerftest(o *Options, j *JobOptions, def bench.Plan, client bool) (half, error) {
	plan, err := benchPlanOf(j, def, client)
	if err != nil {
		return nil, err
	}
	chart, err := newBenchChart(j.Bench.Chart, plan)
	if err != nil {
		return nil, err
	}
	p := &perftest{benchEnd: benchEnd{narrator: narrator{o.Logger}, plan: plan, port: o.IBPort, unit: j.Bench.unit(), chart: chart}}
	p.show = p.tellResult
	return p, nil
}

// perftest is either end of one of the programs.
type perftest struct {
	benchEnd // for its plan, its memory and its table
	show     func(by string, r bench.Result)

	tcp    rawTCP
	next   *following
	gid    verbs.GID
	mine   [][]byte          // keys, as messages
	theirs []oob.PerftestKey // the peer's
}

func (p *perftest) configure(cfg *rc.Config) {
	cfg.Exchange = p.exchange
	cfg.QPs, cfg.Access = p.plan.QPs, p.plan.Access()
	cfg.Cap = verbs.QPCap{MaxSendWR: uint32(p.plan.TxDepth), MaxRecvWR: uint32(p.plan.RxDepth), MaxInlineData: uint32(p.plan.Inline)}
	cfg.MaxReads = 1
	if p.plan.Op == bench.Read || p.plan.Op == bench.Atomic {
		cfg.MaxReads = benchReads
	}
}

// prepare makes nothing: memory is made when both ends know its layout, receives are
// posted before the ends meet.
func (p *perftest) prepare(c *rc.Conn) error { return p.carried(c.Device()) }

func (p *perftest) run(ctx context.Context, c *rc.Conn) error {
	p.tellBegin()
	measure := p.measure
	if p.plan.Passive() {
		measure = p.lend
	}
	if err := measure(ctx, c); err != nil {
		return err
	}
	if p.leaves() {
		p.linger(ctx)
		return p.writeChart()
	}
	if err := p.meet(ctx); err != nil {
		return err
	}
	if err := p.farewell(ctx); err != nil {
		return err
	}
	return p.writeChart()
}

// leaves says whether an end that has measured does not wait for the other.
func (p *perftest) leaves() bool { return p.plan.Latency && p.plan.Op == bench.Write }

// linger gives a client whose last WRITE is seen here the time to hear of it: it
// leaves then.
func (p *perftest) linger(ctx context.Context) {
	if p.plan.Client {
		return
	}
	select {
	case <-ctx.Done():
	case <-p.next.came:
	case <-p.next.until.Done():
	case <-time.After(laggard):
	}
}

func (p *perftest) measure(ctx context.Context, c *rc.Conn) error {
	queues, err := benchQueues(c, p.region)
	if err != nil {
		return err
	}
	for _, k := range p.theirs {
		queues.Remote = append(queues.Remote, bench.Remote{Addr: k.Addr, RKey: k.RKey})
	}
	run, err := bench.New(p.plan, queues)
	if err != nil {
		return err
	}
	var last bench.Result
	for _, size := range p.plan.Sizes() {
		if last, err = p.measureOne(ctx, run, size); err != nil {
			return err
		}
		by := "this end"
		if p.reports() {
			by = "both"
		}
		p.show(by, last)
	}
	if p.plan.Latency || p.plan.Both || p.plan.Op == bench.Send {
		return nil
	}
	if err := p.meet(ctx); err != nil {
		return err
	}
	_, err = p.swapReports(ctx, last)
	return err
}

// measureOne measures one size.
func (p *perftest) measureOne(ctx context.Context, run *bench.Run, size int) (bench.Result, error) {
	var none bench.Result
	send, all, both := p.plan.Op == bench.Send, p.plan.All, p.plan.Both
	if err := run.PostReceives(size); err != nil {
		return none, err
	}
	if send || both {
		if err := p.meet(ctx); err != nil {
			return none, err
		}
	}
	next := oob.PerftestShortKeySize
	if p.reports() && (send || !all) {
		next = oob.PerftestValueSize
	}
	result, err := p.watched(ctx, run, next)
	if err != nil {
		return none, err
	}
	if both && all && !send {
		if err := p.meet(ctx); err != nil {
			return none, err
		}
	}
	if p.reports() {
		theirs, err := p.swapReports(ctx, result)
		if err != nil {
			return none, err
		}
		result = bench.Sum(result, theirs)
	}
	if send && all && !p.plan.Latency {
		return result, p.meet(ctx)
	}
	return result, nil
}

// lend waits while the client measures alone, and shows what it reports.
func (p *perftest) lend(ctx context.Context, _ *rc.Conn) error {
	p.follow(ctx, oob.PerftestShortKeySize)
	p.next.unseen(ctx, p.plan.Duration)
	if p.plan.Latency {
		return nil // it keeps its figures to itself
	}
	if err := p.meet(ctx); err != nil {
		return err
	}
	report, err := p.swapReports(ctx, bench.Result{Size: p.plan.Size})
	if err != nil {
		return err
	}
	p.show("peer", report)
	return nil
}

// laggard is how long an end that still measures may take no completion when the peer
// has finished: all messages are there by then.
const laggard = 2 * time.Second

var errLaggard = errors.New("the peer has finished, and this end waits for more")

// watched measures, and meanwhile listens to what the peer says next, of n bytes: one
// that leaves ends the measuring, and so does one that has finished for long.
func (p *perftest) watched(ctx context.Context, run *bench.Run, n int) (bench.Result, error) {
	next := p.follow(ctx, n)
	measuring, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var alive atomic.Int64
	run.Alive = func() {
		alive.Add(1)
		progress(ctx)
	}
	go func() {
		why := errLaggard
		select {
		case <-measuring.Done():
			return
		case <-next.came:
		case <-next.until.Done():
			if why = context.Cause(next.until); !p.leaves() {
				giveUp(why)
				return
			}
		}
		for last := int64(-1); last != alive.Load(); {
			last = alive.Load()
			select {
			case <-measuring.Done():
				return
			case <-time.After(laggard):
			}
		}
		giveUp(why)
	}()
	result, err := run.Measure(measuring)
	if err != nil && p.mayDiffer(err) {
		err = fmt.Errorf("%w; this end has %s, which perftest does not exchange, try: the same at both ends", err, p.flags())
	}
	return result, err
}

// mayDiffer says whether a measuring may have failed since the ends have other flags.
func (p *perftest) mayDiffer(err error) bool {
	var failed *verbs.WCError
	if errors.As(err, &failed) {
		return failed.Status != verbs.WCRetryExcErr
	}
	return errors.Is(err, errLaggard)
}

// flags are what both ends must be given, in perftest's letters.
func (p *perftest) flags() string {
	f := []string{fmt.Sprintf("-s %d", p.plan.Size)}
	if p.plan.All {
		f = []string{"-a"}
	}
	if p.plan.Duration > 0 {
		f = append(f, fmt.Sprintf("-D %.0f", p.plan.Duration.Seconds()))
	} else {
		f = append(f, fmt.Sprintf("-n %d", p.plan.Iterations))
	}
	if !p.plan.Latency {
		f = append(f, fmt.Sprintf("-q %d", p.plan.QPs))
	}
	if p.plan.Both {
		f = append(f, "-b")
	}
	return strings.Join(f, " ")
}

// following is the peer's next message, of which the first bytes are waited for while
// something else is done.
type following struct {
	until context.Context // ends if the peer leaves instead
	came  <-chan struct{}
	heard func() ([]byte, error)
}

// follow waits for it from here on, unless it is waited for already.
func (p *perftest) follow(ctx context.Context, n int) *following {
	if p.next == nil {
		came := make(chan struct{})
		until, heard := p.tcp.ahead(ctx, "what the peer says when it has measured", n)
		go func() {
			if _, err := heard(); err == nil {
				close(came)
			}
		}()
		p.next = &following{until, came, heard}
	}
	return p.next
}

// unseen passes a time in which the peer is known to do what does not show here: the
// job does not stand still.
func (f *following) unseen(ctx context.Context, limit time.Duration) {
	for began := time.Now(); time.Since(began) < limit; {
		select {
		case <-f.came:
			return
		case <-f.until.Done():
			return
		case <-time.After(100 * time.Millisecond):
			progress(ctx)
		}
	}
}

// receive hears n bytes: those that were waited for already, or the next.
func (p *perftest) receive(ctx context.Context, what string, n int) ([]byte, error) {
	progress(ctx)
	if next := p.next; next != nil {
		p.next = nil
		return next.heard()
	}
	return p.tcp.receive(ctx, what, n)
}
