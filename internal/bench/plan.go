// What is to be measured, and the rules by which one choice settles another.

package bench

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// Op is the operation that is measured.
type Op uint8

// The operations.
const (
	Send Op = iota
	Write
	Read
	Atomic // FETCH_ADD
)

// String is the operation's name in the names of perftest's programs: "write".
func (o Op) String() string {
	if names := [...]string{"send", "write", "read", "atomic"}; int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// opcode is the work request's.
func (o Op) opcode() verbs.Opcode {
	return [...]verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpAtomicFetchAndAdd}[o]
}

// Plan says what is measured. Both ends have the same, but for Client.
type Plan struct {
	Op      Op
	Latency bool // else bandwidth
	Client  bool // this end posts first; in one direction, it alone measures bandwidth
	Both    bool // bandwidth in both directions at once

	Size int  // bytes of each message; with All, of the largest
	All  bool // every power of two from 2 to Size

	Iterations int           // messages of each queue pair; 0 with Duration
	Duration   time.Duration // measure for so long; 0 is by Iterations
	Margin     time.Duration // of Duration, at either end, in which nothing is counted; 0 is none

	QPs      int  // bandwidth only: latency has one
	TxDepth  int  // requests outstanding on each queue pair
	RxDepth  int  // receives posted on each queue pair, by Send
	CQMod    int  // one request of so many completes; 0 leaves the choice to Settle
	PostList int  // requests posted in one call
	Inline   int  // messages up to so many bytes are sent inline
	Events   bool // sleep until a completion's event, instead of polling

	// Page and CacheLine are the sizes, in bytes, that memory is laid out by, which both
	// ends must have the same; 0 is this host's.
	Page, CacheLine int
}

// The limits are perftest's.
const (
	minIterations, maxIterations = 5, 100_000_000
	maxTxDepth, maxRxDepth       = 15_000, 16_384
	maxCQMod                     = 1024
	maxSize                      = 1 << 30
	maxDuration                  = 24 * time.Hour

	// AllSize is the largest message of a sweep over all sizes.
	AllSize = 1 << 23

	// Above peakIterations no peak is looked for; above moderateSize every request
	// completes, unless CQMod says otherwise.
	peakIterations = 20_000
	moderateSize   = 8192

	atomicSize = 8
)

// Defaults is what perftest's program for the operation does without flags.
func Defaults(op Op, latency bool) Plan {
	p := Plan{Op: op, Latency: latency, Size: 64 << 10, Iterations: 1000, QPs: 1, TxDepth: 128, RxDepth: 1, PostList: 1}
	if latency {
		p.Size, p.TxDepth = 2, 1
	}
	if op == Atomic {
		p.Size = atomicSize
	}
	if op == Send {
		p.RxDepth = 512
	}
	if op == Write && !latency {
		p.Iterations = 5000
	}
	return p
}

// DefaultMargin is perftest's margin for a duration: a quarter of it, in whole seconds.
func DefaultMargin(d time.Duration) time.Duration { return (d / 4).Truncate(time.Second) }

// Settle fits the plan's parts to one another by perftest's rules: depths are cut to
// the iterations, CQMod to the depth. What cannot be measured is an error, which names
// perftest's flag.
func (p *Plan) Settle() error {
	if p.All && p.Op != Atomic {
		p.Size = AllSize
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.Duration > 0 {
		p.Iterations = 0
	} else {
		p.TxDepth = min(p.TxDepth, p.Iterations)
		p.RxDepth = min(p.RxDepth, p.Iterations)
	}
	if p.Op != Send {
		p.RxDepth = 1
	}
	if p.Op == Read || p.Op == Atomic {
		p.Inline = 0
	}
	switch {
	case p.CQMod != 0:
	case p.PostList > 1:
		p.CQMod = p.PostList
	case p.Size > moderateSize && !p.All && !p.Events:
		p.CQMod = 1
	default:
		p.CQMod = 100
	}
	p.CQMod = min(p.CQMod, p.TxDepth)
	if p.PostList > p.TxDepth {
		return errors.Errorf("a list of %d requests (-l) does not fit %d outstanding (-t); try: -t %d or more", p.PostList, p.TxDepth, p.PostList)
	}
	if p.PostList > 1 && p.PostList%p.CQMod != 0 {
		return errors.Errorf("of a list of %d requests (-l) the last must complete, and one of %d does (--cq-mod); try: --cq-mod %d", p.PostList, p.CQMod, p.PostList)
	}
	return nil
}

// check refuses what cannot be.
func (p *Plan) check() error {
	for _, c := range []struct {
		what, flag     string
		n, least, most int
	}{
		{"bytes in a message", "-s", p.Size, 1, maxSize},
		{"queue pairs", "-q", p.QPs, 1, 1 << 14},
		{"requests outstanding", "-t", p.TxDepth, 1, maxTxDepth},
		{"receives posted", "-r", p.RxDepth, 1, maxRxDepth},
		{"requests for a completion", "--cq-mod", p.CQMod, 0, maxCQMod},
		{"requests in a list", "-l", p.PostList, 1, maxTxDepth},
		{"bytes sent inline", "-I", p.Inline, 0, 1 << 16},
	} {
		if c.n < c.least || c.n > c.most {
			return errors.Errorf("%d %s cannot be measured; try: %s from %d to %d", c.n, c.what, c.flag, c.least, c.most)
		}
	}
	switch n := p.Iterations; {
	case p.Op > Atomic:
		return errors.Errorf("%v is no operation to be measured", p.Op)
	case p.Op == Atomic && (p.Size != atomicSize || p.All):
		return errors.New("an atomic operation is of 8 bytes, always; try: without -s and -a")
	case p.Duration == 0 && (n < minIterations || n > maxIterations):
		return errors.Errorf("%d iterations cannot be measured; try: -n from %d to %d", n, minIterations, maxIterations)
	case p.Duration < 0 || p.Duration > maxDuration:
		return errors.Errorf("a duration of %v cannot be measured; try: -D from 1 to %d seconds", p.Duration, maxDuration/time.Second)
	case p.Margin < 0 || p.Duration > 0 && p.Duration <= 2*p.Margin:
		return errors.Errorf("of a duration of %v, margins of %v at either end leave nothing to be measured; try: a longer -D", p.Duration, p.Margin)
	case p.Duration > 0 && p.All:
		return errors.New("a duration (-D) is of one size, and -a is all sizes; try: -n instead of -D")
	case p.Duration > 0 && p.Events:
		return errors.New("a duration (-D) is measured by polling; try: without -e")
	case p.Latency && (p.QPs > 1 || p.PostList > 1 || p.Both):
		return errors.New("latency is that of one message at a time, on one queue pair; try: without -q, -l and -b, or a bandwidth job")
	case p.Latency && p.Op == Write && p.Events:
		return errors.New("who waits for a WRITE looks at the memory, and no event tells; try: without -e")
	case p.Both && p.Op == Send && p.Events:
		return errors.New("both directions of SEND complete on two queues, and this end sleeps on one; try: without -e")
	case p.Duration == 0 && n%p.PostList != 0:
		return errors.Errorf("%d iterations are no whole number of lists of %d requests; try: -n %d", n, p.PostList, n-n%p.PostList+p.PostList)
	}
	return nil
}

// Sizes are those that are measured, one after the other.
func (p *Plan) Sizes() []int {
	if !p.All {
		return []int{p.Size}
	}
	var sizes []int
	for s := 2; s <= p.Size; s *= 2 {
		sizes = append(sizes, s)
	}
	return sizes
}

// Passive says whether this end only lends its memory: the peer measures alone.
func (p *Plan) Passive() bool {
	switch {
	case p.Client || p.Both || p.Op == Send:
		return false
	case p.Latency:
		return p.Op != Write
	}
	return true
}

// Peak says whether the peak bandwidth is looked for.
func (p *Plan) Peak() bool {
	return p.Duration == 0 && p.Iterations <= peakIterations && !p.receivesOnly()
}

// sends says whether this end posts messages.
func (p *Plan) sends() bool { return p.Client || p.Both || p.Latency && !p.Passive() }

// receives says whether it posts receives.
func (p *Plan) receives() bool { return p.Op == Send && (p.Latency || p.Both || !p.Client) }

func (p *Plan) receivesOnly() bool { return p.receives() && !p.sends() }

// Memory: the first half is what is sent from or read into, by queue pair, the second
// is the peer's to send, WRITE and READ. Small messages go round in a page of it, each
// in a cache line of its own; from half a page on all use the same place.

// CacheLine is this host's cache line, as perftest takes it: that of amd64 and arm64.
const CacheLine = 64

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (p *Plan) page() int      { return cmp.Or(p.Page, os.Getpagesize()) }
func (p *Plan) cacheLine() int { return cmp.Or(p.CacheLine, CacheLine) }

// slot is the memory of one queue pair in one direction, in bytes.
func (p *Plan) slot() int { return roundUp(max(p.Size, p.page()), p.cacheLine()) }

// Bytes is the size of the region.
func (p *Plan) Bytes() int { return 2 * p.QPs * p.slot() }

// RemoteOffset is where in the region the peer's requests on a queue pair begin. The peer
// gets its address.
func (p *Plan) RemoteOffset(qp int) int { return (p.QPs + qp) * p.slot() }

// Access is what the region must be registered for, and with AccessLocalWrite what
// the queue pairs must allow.
func (p *Plan) Access() verbs.Access {
	return verbs.AccessLocalWrite | [...]verbs.Access{0, verbs.AccessRemoteWrite, verbs.AccessRemoteRead, verbs.AccessRemoteAtomic}[p.Op]
}

// places is how many messages of a size go round in a queue pair's memory, and the
// bytes from one to the next. Where latency is measured it is always one.
func (p *Plan) places(size int) (count, step int64) {
	page := p.page()
	if p.Latency || size > page/2 {
		return 1, 0
	}
	step = int64(roundUp(size, p.cacheLine()))
	return int64(page) / step, step
}
