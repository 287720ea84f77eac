// The job "bulk": much data, in chunks, through a window of slots at both ends that
// are used over and over, so that neither needs the memory for all of it.
//
//   - write: the client WRITEs each chunk into its slot, with an immediate that says
//     which chunk it is and completes one of the server's receives.
//   - send: the client SENDs each chunk; the receive that waits for it names the slot.
//   - read: the server fills its slots, and the client READs them.
//
// A slot is used again once the chunk in it was checked. The end that takes the
// data says how far it is, the end that makes it for a READ how much there is, by
// SENDs without data whose immediate is a count: credits (bulk_flow.go). The data
// follows from a seed that the client chooses; who takes it compares every byte,
// and at the end both compare a checksum of all of it (bulk_data.go).

package lab

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

var bulkJob = job{
	name:  "bulk",
	about: "move much data in chunks over several queue pairs, check and measure it",
	flags: []string{"size", "chunk", "outstanding", "signal-every", "qps", "op", "csv"},
	size:  64 << 20,
	ops:   bulkOps,
	client: func(o ClientOptions) (half, error) {
		plan, err := o.bulkPlan()
		if err != nil {
			return nil, err
		}
		csv, err := openCSV(o.Bulk.CSV)
		if err != nil {
			return nil, err
		}
		end := newBulkEnd(plan, o.Logger, o.IBPort)
		end.meter.csv, end.meter.progress = csv, o.Progress
		if plan.op == opRead {
			return &bulkPuller{end}, nil
		}
		return &bulkPusher{end}, nil
	},
	server: func(v visit) (half, error) {
		plan, err := v.bulkPlan()
		if err != nil {
			return nil, err
		}
		end := newBulkEnd(plan, v.Logger, v.IBPort)
		if plan.op == opRead {
			return &bulkOfferer{end}, nil
		}
		return &bulkTaker{bulkEnd: end}, nil
	},
}

// The ways to move the data.
const (
	opWrite = "write"
	opRead  = "read"
	opSend  = "send"
)

var bulkOps = []string{opWrite, opRead, opSend}

// BulkOptions are the client's choices for the job bulk; the amount of data is
// JobOptions.Size, JobOptions.Chunk how it is divided.
type BulkOptions struct {
	Outstanding int // requests posted and not completed, of each queue pair
	SignalEvery int // requests, one of which completes
	QPs         int
	CSV         string // file for a row an interval; "" writes none
}

func (b *BulkOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&b.Outstanding, "outstanding", 16, "requests in flight on each queue pair; as many chunks have memory at both ends")
	f.IntVar(&b.SignalEvery, "signal-every", 4, "have one request of so many complete; the others complete with it")
	f.IntVar(&b.QPs, "qps", 1, fmt.Sprintf("queue pairs, which share a completion queue: 1 to %d (srq-pingpong: 16, 1 to 255)", oob.MaxEndpoints))
	f.StringVar(&b.CSV, "csv", "", "write a row for each 100 ms to this file: "+strings.Join(csvHeader, ", "))
}

// bulkPlan is what both ends know before the first chunk. Chunk i goes over the
// queue pair i mod qps, through the slot i mod slots().
type bulkPlan struct {
	chunked
	op          string
	outstanding int
	qps         int
	signalEvery int // the client's alone
	seed        uint64
}

const (
	maxChunk       = 1 << 30
	maxOutstanding = 1 << 20
)

// bulkPlan reads the client's flags.
func (o *ClientOptions) bulkPlan() (bulkPlan, error) {
	b := &o.Bulk
	p := bulkPlan{op: o.Op, chunked: chunked{int64(o.Size), int(o.Chunk)}, outstanding: b.Outstanding, qps: b.QPs, signalEvery: b.SignalEvery, seed: rand.Uint64()}
	switch {
	case !slices.Contains(bulkOps, p.op):
		return p, Usagef("there is no --op %q; try: %s", p.op, strings.Join(bulkOps, ", "))
	case o.Chunk < 1 || o.Chunk > maxChunk:
		return p, Usagef("a chunk of %v bytes cannot be had; try: --chunk from 1 to %v", o.Chunk, Size(maxChunk))
	case o.Chunk > o.Size:
		return p, Usagef("a chunk of %v bytes is more than all of the data, %v; try: --chunk %v, or a larger --size", o.Chunk, o.Size, o.Size)
	case p.qps < 1 || p.qps > oob.MaxEndpoints:
		return p, Usagef("a connection of %d queue pairs cannot be had; try: --qps from 1 to %d", p.qps, oob.MaxEndpoints)
	case p.outstanding < 1 || p.outstanding > maxOutstanding:
		return p, Usagef("%d requests outstanding cannot be had; try: --outstanding from 1 to %d", p.outstanding, maxOutstanding)
	case p.signalEvery < 1 || p.signalEvery > p.outstanding:
		return p, Usagef("with one request of %d signaled and %d outstanding, the send queue is full before one completes; try: --signal-every from 1 to %d",
			p.signalEvery, p.outstanding, p.outstanding)
	}
	return p, nil
}

// The hello's parameters of the job.
const (
	paramOp          = "op"
	paramBytes       = "bytes"
	paramOutstanding = "outstanding"
	paramQPs         = "qps"
	paramSeed        = "seed"
)

func (p *bulkPlan) announce(params map[string]string) {
	params[paramOp] = p.op
	params[paramBytes] = strconv.FormatInt(p.total, 10)
	params[paramChunk] = strconv.Itoa(p.chunk)
	params[paramOutstanding] = strconv.Itoa(p.outstanding)
	params[paramQPs] = strconv.Itoa(p.qps)
	params[paramSeed] = strconv.FormatUint(p.seed, 16)
}

// bulkPlan reads what a client told, and holds its window against what this server
// gives.
func (v *visit) bulkPlan() (bulkPlan, error) {
	p := bulkPlan{op: v.params[paramOp], signalEvery: 1}
	if !slices.Contains(bulkOps, p.op) {
		return p, fmt.Errorf("the client asks for the operation %q; try: %s", p.op, strings.Join(bulkOps, ", "))
	}
	seed, err := strconv.ParseUint(v.params[paramSeed], 16, 64)
	if err != nil {
		return p, fmt.Errorf("the peer's parameter %s is %q, which is no hexadecimal number of 64 bits; try: a peer of this program's version", paramSeed, v.params[paramSeed])
	}
	p.seed = seed
	if p.total, err = v.params.number(paramBytes, 1, maxSize); err != nil {
		return p, err
	}
	for _, field := range []struct {
		key  string
		into *int
		high int64
	}{
		{paramChunk, &p.chunk, min(p.total, maxChunk)},
		{paramOutstanding, &p.outstanding, maxOutstanding},
		{paramQPs, &p.qps, oob.MaxEndpoints},
	} {
		n, err := v.params.number(field.key, 1, field.high)
		if err != nil {
			return p, err
		}
		*field.into = int(n)
	}
	return p, p.within(v.MaxSize)
}

// within holds the window against the most that a server gives.
func (p *bulkPlan) within(most Size) error {
	if window := Size(p.window()); window > most {
		return fmt.Errorf("%d chunks of %v bytes in flight need a region of %v bytes at the server, which gives at most %v; try: a smaller --chunk, --outstanding or --qps, or rdma_server --max-size %v",
			p.slots(), Size(p.chunk), window, most, window)
	}
	return nil
}

// slots is how many chunks have memory at a time.
func (p *bulkPlan) slots() int { return int(min(int64(p.outstanding)*int64(p.qps), p.chunks())) }

// window is the memory of all slots, in bytes.
func (p *bulkPlan) window() int64 { return int64(p.slots()) * int64(p.chunk) }

func (p *bulkPlan) slot(i int64) int { return int(i % int64(p.slots())) }
func (p *bulkPlan) qp(i int64) int   { return int(i % int64(p.qps)) }

// turn is the chunk's number among those of its queue pair.
func (p *bulkPlan) turn(i int64) int64 { return i / int64(p.qps) }

// signaled says whether a chunk's request completes by itself: one of signalEvery,
// and the queue pair's last.
func (p *bulkPlan) signaled(i int64) bool {
	return (p.turn(i)+1)%int64(p.signalEvery) == 0 || i+int64(p.qps) >= p.chunks()
}

// attrs are the plan as a record tells it.
func (p *bulkPlan) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("op", p.op), slog.Int64("bytes", p.total), slog.Int("chunk", p.chunk), slog.Int64("chunks", p.chunks()),
		slog.Int("qps", p.qps), slog.Int("outstanding", p.outstanding), slog.Int64("window", p.window()), slog.String("seed", strconv.FormatUint(p.seed, 16)),
	}
}

// configure makes the queues as deep as the plan needs; the client also tells it.
func (e *bulkEnd) configure(cfg *rc.Config) {
	cfg.QPs = e.qps
	cfg.Cap.MaxSendWR = uint32(e.outstanding + maxCredits)
	cfg.Cap.MaxRecvWR = uint32(max(e.outstanding, maxCredits))
	e.announce(cfg.Params)
}

// openCSV opens the file of --csv; nil if there is none. What is in it stays until
// there are rows to write.
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
