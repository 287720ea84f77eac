// Package bulk is the job "bulk": it moves much data in chunks. Each end has a window of slots
// and uses them again and again, so no end needs memory for all the data.
//
//   - write: the client WRITEs each chunk into its slot. The immediate is the chunk's number,
//     and completes one of the server's receives.
//   - send: the client SENDs each chunk. The receive that the chunk fills names the slot.
//   - read: the server fills its slots, and the client READs them.
//
// A slot is used again when the chunk in it has been checked. The end that receives data
// reports how many chunks it has checked. For READs, the end that makes the data also reports
// how many chunks it has made. These reports are credits: SENDs without data whose immediate is
// the count (flow.go). The data is computed from a seed that the client chooses. The receiving
// end compares every byte. At the end both ends compare a checksum of all the data (data.go).
package bulk

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "bulk",
	About:  "transfer data in chunks over several queue pairs, check and measure it",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return kit.SideFunc(newServer) },
}}

func newClientSide(f *pflag.FlagSet) kit.Side {
	var o options
	o.addFlags(f)
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		p, err := o.chosen()
		if err != nil {
			return nil, err
		}
		csv, err := openCSV(o.csv)
		if err != nil {
			return nil, err
		}
		e := newEndpoint(p, &s)
		e.meter.csv, e.meter.progress = csv, s.Progress
		if p.op == opRead {
			return &puller{e}, nil
		}
		return &pusher{e}, nil
	})
}

func newServer(s kit.Session) (kit.Endpoint, error) {
	p, err := askedPlan(&s)
	if err != nil {
		return nil, err
	}
	e := newEndpoint(p, &s)
	if p.op == opRead {
		return &offerer{e}, nil
	}
	return &taker{endpoint: e}, nil
}

// The ways to move the data.
const (
	opWrite = "write"
	opRead  = "read"
	opSend  = "send"
)

var ops = []string{opWrite, opRead, opSend}

// options are the values of the client's flags.
type options struct {
	plan
	size, chunk kit.Size
	csv         string
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.size, o.chunk = 64<<20, 64<<10
	f.Var(&o.size, "size", "total bytes, such as 64M, 1G")
	f.Var(&o.chunk, "chunk", "bytes of each request, such as 4096, 64K, 1M")
	f.StringVar(&o.op, "op", opWrite, "the operation: "+strings.Join(ops, ", "))
	f.IntVar(&o.outstanding, "outstanding", 16, "requests in flight on each queue pair; as many chunks have memory at both ends")
	f.IntVar(&o.signalEvery, "signal-every", 4, "one signaled request per this many requests; its completion covers the others")
	f.IntVar(&o.qps, "qps", 1, fmt.Sprintf("queue pairs, which share a completion queue: 1 to %d", oob.MaxEndpoints))
	f.StringVar(&o.csv, "csv", "", "write a row for each 100 ms to this file: "+strings.Join(csvHeader, ", "))
}

// plan has the values that both ends know before the first chunk. Chunk i goes over the queue
// pair i mod qps, through the slot i mod slots().
type plan struct {
	kit.Chunked
	op          string
	outstanding int
	qps         int
	signalEvery int // used by the client only
	seed        uint64
}

const (
	maxChunk       = 1 << 30
	maxOutstanding = 1 << 20
)

// chosen returns the plan of the flags.
func (o *options) chosen() (plan, error) {
	p := o.plan
	p.Chunked, p.seed = kit.Chunked{Total: int64(o.size), Chunk: int(o.chunk)}, rand.Uint64()
	if err := kit.CheckBuffer(o.size); err != nil {
		return p, err
	}
	switch {
	case !slices.Contains(ops, p.op):
		return p, usage.Errorf("there is no --op %q; try: %s", p.op, strings.Join(ops, ", "))
	case o.chunk < 1 || o.chunk > maxChunk:
		return p, usage.Errorf("a chunk of %v bytes is not possible; try: --chunk from 1 to %v", o.chunk, kit.Size(maxChunk))
	case o.chunk > o.size:
		return p, usage.Errorf("a chunk of %v bytes is larger than all of the data, %v; try: --chunk %v, or a larger --size", o.chunk, o.size, o.size)
	case p.qps < 1 || p.qps > oob.MaxEndpoints:
		return p, usage.Errorf("a connection of %d queue pairs is not possible; try: --qps from 1 to %d", p.qps, oob.MaxEndpoints)
	case p.outstanding < 1 || p.outstanding > maxOutstanding:
		return p, usage.Errorf("%d requests outstanding are not possible; try: --outstanding from 1 to %d", p.outstanding, maxOutstanding)
	case p.signalEvery < 1 || p.signalEvery > p.outstanding:
		return p, usage.Errorf("with one request of %d signaled and %d outstanding, the send queue is full before one completes; try: --signal-every from 1 to %d",
			p.signalEvery, p.outstanding, p.outstanding)
	}
	return p, nil
}

// The hello's parameters of the job.
const (
	paramOp          = "op"
	paramOutstanding = "outstanding"
	paramSeed        = "seed"
)

func (p *plan) announce(params map[string]string) {
	params[paramOp] = p.op
	params[kit.ParamBytes] = strconv.FormatInt(p.Total, 10)
	params[kit.ParamChunk] = strconv.Itoa(p.Chunk)
	params[paramOutstanding] = strconv.Itoa(p.outstanding)
	params[kit.ParamQPs] = strconv.Itoa(p.qps)
	params[paramSeed] = strconv.FormatUint(p.seed, 16)
}

// askedPlan reads a client's parameters. It refuses a window that is larger than this server's
// limit.
func askedPlan(s *kit.Session) (plan, error) {
	p := plan{op: s.Params[paramOp], signalEvery: 1}
	if !slices.Contains(ops, p.op) {
		return p, errors.Errorf("the client asks for the operation %q; try: %s", p.op, strings.Join(ops, ", "))
	}
	seed, err := strconv.ParseUint(s.Params[paramSeed], 16, 64)
	if err != nil {
		return p, errors.Errorf("the peer's parameter %s is %q, not a hexadecimal number of 64 bits; try: a peer of this program's version", paramSeed, s.Params[paramSeed])
	}
	p.seed = seed
	if p.Total, err = s.Params.Number(kit.ParamBytes, 1, kit.LargestSize); err != nil {
		return p, err
	}
	for _, field := range []struct {
		key  string
		into *int
		high int64
	}{
		{kit.ParamChunk, &p.Chunk, min(p.Total, maxChunk)},
		{paramOutstanding, &p.outstanding, maxOutstanding},
		{kit.ParamQPs, &p.qps, oob.MaxEndpoints},
	} {
		n, err := s.Params.Number(field.key, 1, field.high)
		if err != nil {
			return p, err
		}
		*field.into = int(n)
	}
	return p, p.within(s.MaxSize)
}

// within refuses a window that is larger than the server's limit.
func (p *plan) within(most kit.Size) error {
	if window := kit.Size(p.window()); window > most {
		return errors.Errorf("%d chunks of %v bytes in flight need a region of %v bytes at the server, which allows at most %v; try: a smaller --chunk, --outstanding or --qps, or rdma_server --max-size %v",
			p.slots(), kit.Size(p.Chunk), window, most, window)
	}
	return nil
}

// slots returns the number of chunks that have memory at a time.
func (p *plan) slots() int { return int(min(int64(p.outstanding)*int64(p.qps), p.Chunks())) }

// window returns the size of all slots together, in bytes.
func (p *plan) window() int64 { return int64(p.slots()) * int64(p.Chunk) }

func (p *plan) slot(i int64) int { return int(i % int64(p.slots())) }
func (p *plan) qp(i int64) int   { return int(i % int64(p.qps)) }

// turn returns the chunk's number among the chunks of its queue pair.
func (p *plan) turn(i int64) int64 { return i / int64(p.qps) }

// signaled reports whether a chunk's request is signaled. On each queue pair every
// signalEvery-th request is signaled, and the last one.
func (p *plan) signaled(i int64) bool {
	return (p.turn(i)+1)%int64(p.signalEvery) == 0 || i+int64(p.qps) >= p.Chunks()
}

// attrs returns the plan as attributes of a record.
func (p *plan) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("op", p.op), slog.Int64("bytes", p.Total), slog.Int("chunk", p.Chunk), slog.Int64("chunks", p.Chunks()),
		slog.Int("qps", p.qps), slog.Int("outstanding", p.outstanding), slog.Int64("window", p.window()), slog.String("seed", strconv.FormatUint(p.seed, 16)),
	}
}

// Configure makes the queues as deep as the plan needs. The client also puts the plan into its
// parameters.
func (e *endpoint) Configure(cfg *rc.Config) {
	cfg.QPs = e.qps
	cfg.Cap.MaxSendWR = uint32(e.outstanding + maxCredits)
	cfg.Cap.MaxRecvWR = uint32(max(e.outstanding, maxCredits))
	e.announce(cfg.Params)
}

// openCSV opens the file of --csv, and returns nil without --csv. The file keeps its
// content until there are rows to write.
func openCSV(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--csv: %w; try: a file in a folder that exists and may be written", err)
	}
	return file, nil
}
