// Plans: what is measured, and the rules by which perftest adjusts one parameter to others.

package measure

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// Op is the measured operation.
type Op uint8

// The operations.
const (
	Send Op = iota
	Write
	Read
	Atomic // FETCH_ADD
)

// String returns the operation's name in the names of perftest's programs, such as "write".
func (o Op) String() string {
	if names := [...]string{"send", "write", "read", "atomic"}; int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// opcode returns the opcode of the work requests.
func (o Op) opcode() verbs.Opcode {
	return [...]verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpAtomicFetchAndAdd}[o]
}

// Plan describes a measurement. Both ends have the same plan, except for Client.
type Plan struct {
	Op      Op
	Latency bool // otherwise bandwidth
	Client  bool // this end posts first; in a bandwidth run in one direction, only this end measures
	Both    bool // bandwidth in both directions at once

	Size int  // bytes per message; with All, of the largest messages
	All  bool // measure all powers of two from 2 to Size

	Iterations int           // messages per queue pair; 0 with Duration
	Duration   time.Duration // how long to measure; 0 means by Iterations
	Margin     time.Duration // part of Duration at its begin and at its end in which nothing is counted

	QPs      int  // only for bandwidth; latency uses one
	TxDepth  int  // maximum of outstanding requests per queue pair
	RxDepth  int  // receives posted per queue pair; only for Send
	CQMod    int  // one of CQMod requests is signaled; 0 lets Settle choose
	PostList int  // requests per post
	Inline   int  // messages of up to this many bytes are sent inline
	Events   bool // sleep until a completion event instead of polling

	// Page and CacheLine are the sizes, in bytes, that determine the layout of memory. They
	// must be the same at both ends; 0 means this host's.
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

	// The peak is measured for up to peakIterations. Above moderateSize every request is
	// signaled, unless CQMod is set.
	peakIterations = 20_000
	moderateSize   = 8192

	atomicSize = 8
)

// Defaults returns the plan of perftest's program for the operation without flags.
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

// DefaultMargin returns perftest's margin for a duration: a quarter of it, in whole seconds.
func DefaultMargin(d time.Duration) time.Duration { return (d / 4).Truncate(time.Second) }

// Settle checks the plan and adjusts its parameters to each other by perftest's rules: it
// limits the depths to the iterations, and CQMod to the depth. It returns an error if the plan
// cannot be measured. The error names perftest's flag.
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
		return errors.Errorf("a list of %d requests (-l) does not fit into a send queue of %d (-t); try: -t %d or more", p.PostList, p.TxDepth, p.PostList)
	}
	if p.PostList > 1 && p.PostList%p.CQMod != 0 {
		return errors.Errorf("the last of a list of %d requests (-l) must be signaled, but one of %d is (--cq-mod); try: --cq-mod %d", p.PostList, p.CQMod, p.PostList)
	}
	return nil
}

// check returns an error if the plan cannot be measured.
func (p *Plan) check() error {
	for _, c := range []struct {
		what, flag     string
		n, least, most int
	}{
		{"bytes in a message", "-s", p.Size, 1, maxSize},
		{"queue pairs", "-q", p.QPs, 1, 1 << 14},
		{"requests outstanding", "-t", p.TxDepth, 1, maxTxDepth},
		{"receives posted", "-r", p.RxDepth, 1, maxRxDepth},
		{"requests per completion", "--cq-mod", p.CQMod, 0, maxCQMod},
		{"requests in a list", "-l", p.PostList, 1, maxTxDepth},
		{"bytes sent inline", "-I", p.Inline, 0, 1 << 16},
	} {
		if c.n < c.least || c.n > c.most {
			return errors.Errorf("%d %s cannot be measured; try: %s from %d to %d", c.n, c.what, c.flag, c.least, c.most)
		}
	}
	switch n := p.Iterations; {
	case p.Op > Atomic:
		return errors.Errorf("%v is not an operation", p.Op)
	case p.Op == Atomic && (p.Size != atomicSize || p.All):
		return errors.New("an atomic always has 8 bytes; try: without -s and -a")
	case p.Duration == 0 && (n < minIterations || n > maxIterations):
		return errors.Errorf("%d iterations cannot be measured; try: -n from %d to %d", n, minIterations, maxIterations)
	case p.Duration < 0 || p.Duration > maxDuration:
		return errors.Errorf("a duration of %v cannot be measured; try: -D from 1 to %d seconds", p.Duration, maxDuration/time.Second)
	case p.Margin < 0 || p.Duration > 0 && p.Duration <= 2*p.Margin:
		return errors.Errorf("a duration of %v has no time left between two margins of %v; try: a longer -D", p.Duration, p.Margin)
	case p.Duration > 0 && p.All:
		return errors.New("a duration (-D) measures one size, but -a asks for all sizes; try: -n instead of -D")
	case p.Duration > 0 && p.Events:
		return errors.New("a run with a duration (-D) must poll; try: without -e")
	case p.Latency && (p.QPs > 1 || p.PostList > 1 || p.Both):
		return errors.New("latency is measured with one message at a time on one queue pair; try: without -q, -l and -b, or a bandwidth job")
	case p.Latency && p.Op == Write && p.Events:
		return errors.New("a WRITE makes no completion event at the peer, so both ends must poll memory; try: without -e")
	case p.Both && p.Op == Send && p.Events:
		return errors.New("SEND in both directions completes on two CQs, but this end can sleep on only one; try: without -e")
	case p.Duration == 0 && n%p.PostList != 0:
		return errors.Errorf("%d iterations are not a multiple of a list of %d requests; try: -n %d", n, p.PostList, n-n%p.PostList+p.PostList)
	}
	return nil
}

// Sizes returns the sizes to measure, in ascending order.
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

// Passive reports whether this end only provides memory, and the peer measures alone.
func (p *Plan) Passive() bool {
	switch {
	case p.Client || p.Both || p.Op == Send:
		return false
	case p.Latency:
		return p.Op != Write
	}
	return true
}

// Peak reports whether the peak bandwidth is measured.
func (p *Plan) Peak() bool {
	return p.Duration == 0 && p.Iterations <= peakIterations && !p.receivesOnly()
}

// sends reports whether this end posts messages.
func (p *Plan) sends() bool { return p.Client || p.Both || p.Latency && !p.Passive() }

// receives reports whether this end posts receives.
func (p *Plan) receives() bool { return p.Op == Send && (p.Latency || p.Both || !p.Client) }

func (p *Plan) receivesOnly() bool { return p.receives() && !p.sends() }

// Layout of the memory: each queue pair has one slot in each half. This end sends from the
// first half and READs into it. The peer SENDs and WRITEs into the second half and READs from
// it. Small messages use the cache lines of a page in turn. Messages of more than half a page
// all use the same place.

// CacheLine is the size of a cache line that perftest assumes on amd64 and arm64.
const CacheLine = 64

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (p *Plan) page() int      { return cmp.Or(p.Page, os.Getpagesize()) }
func (p *Plan) cacheLine() int { return cmp.Or(p.CacheLine, CacheLine) }

// slot returns the bytes of one queue pair in one direction.
func (p *Plan) slot() int { return roundUp(max(p.Size, p.page()), p.cacheLine()) }

// Bytes returns the size of the region.
func (p *Plan) Bytes() int { return 2 * p.QPs * p.slot() }

// Memory returns the bytes of the region, of the requests of a post, and of the times that the peak
// needs.
func (p *Plan) Memory() int64 {
	need := int64(p.Bytes()) + int64(p.QPs)*int64(p.PostList)*(112+16)
	if p.Peak() && p.sends() {
		messages := int64(p.QPs) * int64(p.Iterations)
		need += messages*16 + messages/int64(max(p.PostList, 1))*16
	}
	return need
}

// RemoteOffset returns the offset in the region of a queue pair's slot for the peer's requests.
// The user sends its address to the peer.
func (p *Plan) RemoteOffset(qp int) int { return (p.QPs + qp) * p.slot() }

// Access returns the rights with which the region must be registered. The queue pairs must
// allow the same rights, except AccessLocalWrite, which is harmless there.
func (p *Plan) Access() verbs.Access {
	return verbs.AccessLocalWrite | [...]verbs.Access{0, verbs.AccessRemoteWrite, verbs.AccessRemoteRead, verbs.AccessRemoteAtomic}[p.Op]
}

// places returns how many messages of a size are used in turn in a queue pair's memory, and
// their distance in bytes. For latency count is always 1.
func (p *Plan) places(size int) (count, step int64) {
	page := p.page()
	if p.Latency || size > page/2 {
		return 1, 0
	}
	step = int64(roundUp(size, p.cacheLine()))
	return int64(page) / step, step
}
