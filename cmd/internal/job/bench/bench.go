// Package bench has the jobs "bench-…", which measure the bandwidth and the latency of an
// operation. They have the flags and the table of perftest's programs (cmd/internal/job/bench/measure). The
// client chooses everything, and the server follows. Over TCP the ends meet in a barrier before
// and after each size, and exchange their results. A passive end only has the memory. It gets a
// note from time to time, which says that the other end still measures.
package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// layoutPage is the page size in bytes for the layout of memory. Both ends use the same, even
// if the pages of their hosts differ.
const layoutPage = 4096

// Jobs has all jobs of this package, for the list in package run: bench-send-bw,
// bench-send-lat, …
var Jobs = makeJobs()

func makeJobs() (made kit.List) {
	for _, op := range []measure.Op{measure.Send, measure.Write, measure.Read, measure.Atomic} {
		made = append(made, newType(op, false), newType(op, true))
	}
	return made
}

// Name returns the name of a job.
func Name(op measure.Op, latency bool) string {
	if latency {
		return fmt.Sprintf("bench-%v-lat", op)
	}
	return fmt.Sprintf("bench-%v-bw", op)
}

// Program returns the name of the perftest program that measures the same.
func Program(op measure.Op, latency bool) string {
	return strings.NewReplacer("bench", "ib", "-", "_").Replace(Name(op, latency))
}

func newType(op measure.Op, latency bool) kit.Type {
	what := "bandwidth"
	if latency {
		what = "latency"
	}
	def := measure.Defaults(op, latency)
	def.Page, def.CacheLine = layoutPage, measure.CacheLine
	return kit.Type{
		Name:   Name(op, latency),
		About:  fmt.Sprintf("measure the %s of %v, as perftest's %s does", what, op, Program(op, latency)),
		Client: func(f *pflag.FlagSet) kit.Side { return newClientSide(f, def) },
		Server: func(*pflag.FlagSet) kit.Side {
			return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) { return newServer(&s, def) })
		},
	}
}

func newClientSide(f *pflag.FlagSet, def measure.Plan) kit.Side {
	var flags Flags
	flags.Add(f, def)
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		table, err := flags.Table(&s, true)
		return &endpoint{Table: table, gbits: flags.gbits, port: s.Port}, err
	})
}

func newServer(s *kit.Session, def measure.Plan) (kit.Endpoint, error) {
	plan, gbits, err := askedPlan(s, def)
	return &endpoint{Table: Table{Tracer: kit.Tracer{Logger: s.Logger}, Plan: plan, Unit: unitOf(gbits)}, port: s.Port}, err
}

// endpoint is one end.
type endpoint struct {
	Table
	gbits bool  // the client asked for Gb/s
	port  uint8 // of the device

	conn   *rc.Conn
	region *verbs.MR
}

// MaxReads requests as many READs and atomics in flight as the device can have, as perftest
// does.
const MaxReads = 255

func (e *endpoint) Configure(cfg *rc.Config) {
	p := &e.Plan
	cfg.QPs, cfg.MaxReads, cfg.Access = p.QPs, MaxReads, p.Access()
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR, cfg.Cap.MaxInlineData = uint32(p.TxDepth), uint32(p.RxDepth), uint32(p.Inline)
	if p.Client {
		e.announce(cfg.Params)
	}
}

// Memory returns the bytes that the plan needs.
func (e *endpoint) Memory() int64 { return e.Plan.Memory() }

func (e *endpoint) Prepare(c *rc.Conn) (err error) {
	e.conn = c
	if e.Plan.Client {
		if err := e.allowed(c.PeerHello().Params); err != nil {
			return err
		}
	}
	if err := e.CheckSize(c.Device(), e.port); err != nil {
		return err
	}
	if e.region, err = c.AllocMR("for the messages", e.Plan.Bytes(), e.Plan.Access()); err != nil {
		return err
	}
	if e.Plan.Op != measure.Send {
		c.Share(kit.RegionName, e.region)
	}
	return nil
}

// allowed compares the size of the memory with the server's limit, before it is allocated here.
func (e *endpoint) allowed(server kit.Params) error {
	most, err := server.MaxSize()
	if err != nil {
		return err
	}
	return within(&e.Plan, most)
}

func within(p *measure.Plan, most kit.Size) error {
	if need := kit.Size(p.Bytes()); need > most {
		return errors.Errorf("messages of %v bytes on %d queue pairs, both ways, need a region of %v bytes at the server, which allows at most %v; try: a smaller --size or --qps, or rdma_server --max-size %v",
			kit.Size(p.Size), p.QPs, need, most, need)
	}
	return nil
}

func (e *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	life := c.Context()
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	run, err := e.newRun(c)
	if err != nil {
		return err
	}
	e.Begin()
	c.TCP().SetObserver(event.Exchange(e.Quieter().Logger)) // otherwise these records would stand between the table's rows
	for _, size := range e.Plan.Sizes() {
		if err := run.PostReceives(size); err != nil {
			return err
		}
		if err := c.TCP().Barrier(ctx, "bench "+strconv.Itoa(size)); err != nil {
			return err
		}
		e.heartbeat(ctx, run)
		mine, err := run.Measure(ctx)
		if err != nil {
			return err
		}
		kit.Moved(ctx, mine.Iterations*int64(mine.Size))
		if err := e.compare(ctx, size, mine); err != nil {
			return err
		}
	}
	return e.WriteChart()
}

func (e *endpoint) newRun(c *rc.Conn) (*measure.Run, error) {
	q, err := Queues(c, e.region)
	if err != nil {
		return nil, err
	}
	if e.Plan.Op != measure.Send {
		remote, err := kit.PeerRegion(c, e.Plan.Bytes())
		if err != nil {
			return nil, err
		}
		for i := range e.Plan.QPs {
			q.Remote = append(q.Remote, measure.Remote{Addr: remote.Addr + uint64(e.Plan.RemoteOffset(i)), RKey: remote.RKey})
		}
	}
	return measure.New(e.Plan, q)
}

// Queues returns the queues and the local memory of a run. The peer's memory is not set.
func Queues(c *rc.Conn, memory *verbs.MR) (measure.Queues, error) {
	attr, err := c.Device().Query()
	return measure.Queues{QPs: c.QPs(), SendCQ: c.QP().SendCQ(), RecvCQ: c.QP().RecvCQ(), Memory: memory, KernelWorks: attr.VendorID == verbs.VendorRXE}, err
}

// The notes: an end's result, and the report that an end still measures.
const (
	noteResult = "bench result"
	noteAlive  = "bench alive"

	aliveEvery = time.Second
)

// heartbeat makes the run report progress at this end. A passive peer gets notes, so that its wait for
// the result goes on. Its own progress are the packets that arrive.
func (e *endpoint) heartbeat(ctx context.Context, run *measure.Run) {
	peer := e.Plan
	peer.Client = !peer.Client
	passive, said := peer.Passive(), time.Now()
	run.Alive = func() {
		kit.Progress(ctx)
		if passive && time.Since(said) > aliveEvery {
			said = time.Now()
			_ = e.conn.TCP().SendNote(ctx, oob.Note{Name: noteAlive}) // if this fails, the run fails too
		}
	}
}

// compare sends this end's result to the peer, if this end measured. It receives the peer's
// result and logs both.
func (e *endpoint) compare(ctx context.Context, size int, mine measure.Result) error {
	peer := e.Plan
	peer.Client = !peer.Client
	if !e.Plan.Passive() {
		if err := e.conn.TCP().SendNote(ctx, oob.Note{Name: noteResult, Data: encodeResult(mine)}); err != nil {
			return err
		}
	}
	var theirs measure.Result
	for heard := peer.Passive(); !heard; {
		n, err := e.conn.TCP().RecvNote(ctx, "")
		if err != nil {
			return err
		}
		switch n.Name {
		case noteAlive:
		case noteResult:
			if theirs, err = decodeResult(n.Data, &e.Plan, size); err != nil {
				return err
			}
			heard = true
		default:
			return errors.Errorf("the peer sent the note %q, expected %q; try: a peer of this program's version", n.Name, noteResult)
		}
	}
	switch {
	case e.Plan.Passive():
		e.Show("peer", theirs)
	case e.Reports():
		e.Show("both", measure.Sum(mine, theirs))
	default:
		e.Show("this end", mine)
	}
	return nil
}
