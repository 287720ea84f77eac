// Package perftest is either end of perftest's programs, ib_send_bw, ib_write_lat and others,
// as Debian 12 ships them. exchange.go has the exchange over TCP, and cmd/internal/job/bench/measure measures.
// This file runs the measurements and makes the ends meet where perftest's ends do:
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
// At the end the ends meet once more, except after the latency of WRITE, where each end leaves.
package perftest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	table "github.com/rawverbs/rawverbs/cmd/internal/job/bench"
	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Peer is perftest's programs, for the list in package run.
var Peer = kit.Peer{
	Name:  "perftest",
	About: "ib_send_bw, ib_write_lat and others of Debian 12's perftest",
	Port:  oob.DefaultPort,
	Jobs:  makeJobs(),
}

// makeJobs returns one job per program, with the names, flags and tables of the native jobs
// that measure.
func makeJobs() (made kit.List) {
	for _, op := range []measure.Op{measure.Send, measure.Write, measure.Read, measure.Atomic} {
		for _, latency := range []bool{false, true} {
			def := measure.Defaults(op, latency)
			made = append(made, kit.Type{
				Name:    table.Name(op, latency),
				About:   "either end of " + table.Program(op, latency),
				Client:  func(f *pflag.FlagSet) kit.Side { return newSide(f, def, true) },
				Server:  func(f *pflag.FlagSet) kit.Side { return newSide(f, def, false) },
				Letters: map[string]string{"mtu": "m", "ib-port": "i"},
			})
		}
	}
	return made
}

// newSide defines the flags, which are the same at both ends.
func newSide(f *pflag.FlagSet, def measure.Plan, client bool) kit.Side {
	var flags table.Flags
	flags.Add(f, def)
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		t, err := flags.Table(&s, client)
		e := &endpoint{Table: t, port: s.Port}
		e.show = e.Show
		return e, err
	})
}

// endpoint is either end of one of the programs.
type endpoint struct {
	table.Table
	port   uint8 // port of the device
	region *verbs.MR
	show   func(by string, r measure.Result)

	tcp    peer.TCP
	next   *following
	gid    verbs.GID
	mine   [][]byte // this end's keys, as messages
	theirs []qpKey  // the peer's keys
}

func (p *endpoint) Configure(cfg *rc.Config) {
	cfg.Exchange = p.exchange
	cfg.QPs, cfg.Access = p.Plan.QPs, p.Plan.Access()
	cfg.Cap = verbs.QPCap{MaxSendWR: uint32(p.Plan.TxDepth), MaxRecvWR: uint32(p.Plan.RxDepth), MaxInlineData: uint32(p.Plan.Inline)}
	cfg.MaxReads = 1
	if p.Plan.Op == measure.Read || p.Plan.Op == measure.Atomic {
		cfg.MaxReads = table.MaxReads
	}
}

// Memory returns the bytes that the plan needs.
func (p *endpoint) Memory() int64 { return p.Plan.Memory() }

// Prepare allocates nothing, because the layout of memory depends on the peer. The receives are
// posted before the ends meet.
func (p *endpoint) Prepare(c *rc.Conn) error { return p.CheckSize(c.Device(), p.port) }

func (p *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	p.Begin()
	measure := p.measure
	if p.Plan.Passive() {
		measure = p.awaitReports
	}
	if err := measure(ctx, c); err != nil {
		return err
	}
	if p.leaves() {
		p.linger(ctx)
		return p.WriteChart()
	}
	if err := p.meet(ctx); err != nil {
		return err
	}
	if err := p.farewell(ctx); err != nil {
		return err
	}
	return p.WriteChart()
}

// leaves reports whether an end leaves after measuring without waiting for the other.
func (p *endpoint) leaves() bool { return p.Plan.Latency && p.Plan.Op == measure.Write }

// linger gives the client time to get the completion of its last WRITE, before this end leaves.
func (p *endpoint) linger(ctx context.Context) {
	if p.Plan.Client {
		return
	}
	select {
	case <-ctx.Done():
	case <-p.next.came:
	case <-p.next.until.Done():
	case <-time.After(laggard):
	}
}

func (p *endpoint) measure(ctx context.Context, c *rc.Conn) error {
	queues, err := table.Queues(c, p.region)
	if err != nil {
		return err
	}
	for _, k := range p.theirs {
		queues.Remote = append(queues.Remote, measure.Remote{Addr: k.Addr, RKey: k.RKey})
	}
	run, err := measure.New(p.Plan, queues)
	if err != nil {
		return err
	}
	var last measure.Result
	for _, size := range p.Plan.Sizes() {
		if last, err = p.measureOne(ctx, run, size); err != nil {
			return err
		}
		by := "this end"
		if p.Reports() {
			by = "both"
		}
		p.show(by, last)
	}
	if p.Plan.Latency || p.Plan.Both || p.Plan.Op == measure.Send {
		return nil
	}
	if err := p.meet(ctx); err != nil {
		return err
	}
	_, err = p.swapReports(ctx, last)
	return err
}

func (p *endpoint) measureOne(ctx context.Context, run *measure.Run, size int) (measure.Result, error) {
	var none measure.Result
	send, all, both := p.Plan.Op == measure.Send, p.Plan.All, p.Plan.Both
	if err := run.PostReceives(size); err != nil {
		return none, err
	}
	if send || both {
		if err := p.meet(ctx); err != nil {
			return none, err
		}
	}
	next := shortKeySize
	if p.Reports() && (send || !all) {
		next = valueSize
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
	if p.Reports() {
		theirs, err := p.swapReports(ctx, result)
		if err != nil {
			return none, err
		}
		result = measure.Sum(result, theirs)
	}
	if send && all && !p.Plan.Latency {
		return result, p.meet(ctx)
	}
	return result, nil
}

// awaitReports waits while the client measures alone, and shows the client's report.
func (p *endpoint) awaitReports(ctx context.Context, _ *rc.Conn) error {
	p.follow(ctx, shortKeySize)
	p.next.unseen(ctx, p.Plan.Duration)
	if p.Plan.Latency {
		return nil // the client does not send its figures
	}
	if err := p.meet(ctx); err != nil {
		return err
	}
	report, err := p.swapReports(ctx, measure.Result{Size: p.Plan.Size})
	if err != nil {
		return err
	}
	p.show("peer", report)
	return nil
}

// laggard is how long a measurement may go without a completion after the peer has finished. By
// then all messages have arrived.
const laggard = 2 * time.Second

// ownFailure is how long a measurement goes on after the peer has left. A peer leaves at once
// if its request was refused, and then the failed completion at this end is a better error.
const ownFailure = 100 * time.Millisecond

var errLaggard = errors.New("the peer has finished, but this end expects more messages")

// watched measures while it reads the peer's next message of n bytes. The measurement ends if
// the peer leaves, or if this end gets no completion for a while after the peer has finished.
func (p *endpoint) watched(ctx context.Context, run *measure.Run, n int) (measure.Result, error) {
	next := p.follow(ctx, n)
	measuring, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var alive atomic.Int64
	run.Alive = func() {
		alive.Add(1)
		kit.Progress(ctx)
	}
	go func() {
		why := errLaggard
		select {
		case <-measuring.Done():
			return
		case <-next.came:
		case <-next.until.Done():
			if why = context.Cause(next.until); !p.leaves() {
				select { // wait for a failed completion at this end
				case <-measuring.Done():
				case <-time.After(ownFailure):
					giveUp(why)
				}
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
		remedy := "try:" // a failed completion has remedies already
		if errors.As(err, new(*verbs.WCError)) {
			remedy = "or"
		}
		err = fmt.Errorf("%w; %s the same flags at both ends: this end has %s, which perftest does not exchange", err, remedy, p.flags())
	}
	return result, err
}

// mayDiffer reports whether different flags of the ends may be the reason for a failed
// measurement.
func (p *endpoint) mayDiffer(err error) bool {
	var failed *verbs.WCError
	if errors.As(err, &failed) {
		return failed.Status != verbs.WCRetryExcErr
	}
	return errors.Is(err, errLaggard)
}

// flags returns the flags that must be the same at both ends, in perftest's letters.
func (p *endpoint) flags() string {
	f := []string{fmt.Sprintf("-s %d", p.Plan.Size)}
	if p.Plan.All {
		f = []string{"-a"}
	}
	if p.Plan.Duration > 0 {
		f = append(f, fmt.Sprintf("-D %.0f", p.Plan.Duration.Seconds()))
	} else {
		f = append(f, fmt.Sprintf("-n %d", p.Plan.Iterations))
	}
	if !p.Plan.Latency {
		f = append(f, fmt.Sprintf("-q %d", p.Plan.QPs))
	}
	if p.Plan.Both {
		f = append(f, "-b")
	}
	return strings.Join(f, " ")
}

// following is the peer's next message. A goroutine waits for its first bytes.
type following struct {
	until    context.Context // ends if the peer leaves
	came     <-chan struct{} // closed when the bytes have arrived
	received func() ([]byte, error)
}

// follow starts to wait for the peer's next message, unless that has been started already.
func (p *endpoint) follow(ctx context.Context, n int) *following {
	if p.next == nil {
		came := make(chan struct{})
		until, received := p.tcp.ReceiveAhead(ctx, "the peer's message after its measurement", n)
		go func() {
			if _, err := received(); err == nil {
				close(came)
			}
		}()
		p.next = &following{until, came, received}
	}
	return p.next
}

// unseen reports progress for up to limit, until the peer's message arrives. The peer works
// meanwhile, but this end does not see it.
func (f *following) unseen(ctx context.Context, limit time.Duration) {
	for began := time.Now(); time.Since(began) < limit; {
		select {
		case <-f.came:
			return
		case <-f.until.Done():
			return
		case <-time.After(100 * time.Millisecond):
			kit.Progress(ctx)
		}
	}
}

// receive returns the bytes that follow awaits, if any, and otherwise the next n bytes.
func (p *endpoint) receive(ctx context.Context, what string, n int) ([]byte, error) {
	kit.Progress(ctx)
	if next := p.next; next != nil {
		p.next = nil
		return next.received()
	}
	return p.tcp.Receive(ctx, what, n)
}
