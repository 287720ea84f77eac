// The sum of the job "atomic": what the counter that all clients of a server share
// must hold, as far as it can be known.
//
// Each client reports beforehand how much it will add, and afterwards that it has. In
// between its part is uncertain: any of it may be in the counter. So at each moment the
// counter must lie between
//
//	low:  what was there before, and all that is reported,
//	high: low, and all that is announced and not reported.
//
// A client that reports while others are at work gets these bounds. When the last one
// reports, low equals high, and the sum is checked exactly.
//
// If a client dies its part stays uncertain: only the device counted its operations. A
// slot in which the client keeps its count by RDMA would not help, because the counter
// and the slot are two operations and the client may die in between. So its announcement
// stays in high, and the verdicts of the other clients say so; they cannot become wrong.
// When no client is left, their queue pairs are gone and nothing of theirs can arrive.
// The ledger then takes what the counter holds as the new beginning, and the next sums
// are exact again.
//
// All sums are modulo 2^64, as the device's addition is.

package atomic

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pkg/errors"
)

// ledger is a server's counter, and what is known of it.
type ledger struct {
	mu        sync.Mutex
	low       uint64
	uncertain uint64 // high less low; all ones, if it is more than can be counted
	clients   int    // whose queue pairs may still be there
	died      int
	names     []string // of the first clients that died, at most namedDead

	words []uint64 // the counter is the first; the rest of the page is unused
}

func newLedger() *ledger { return &ledger{words: make([]uint64, 4096/8)} }

// memory is the counter's bytes, which are aligned to their length.
func (l *ledger) memory() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(l.words))), 8)
}

func (l *ledger) counter() uint64 { return atomic.LoadUint64(&l.words[0]) }

// account is one client's part.
type account struct {
	*ledger
	name      string
	announced uint64
	reported  bool
}

// join opens the account of a client that will add so much.
func (l *ledger) join(name string, announced uint64) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	if l.uncertain += announced; l.uncertain < announced {
		l.uncertain = math.MaxUint64
	}
	return &account{ledger: l, name: name, announced: announced}
}

// report notes that a client has added everything, and returns the verdict.
func (a *account) report(added uint64) (verdict, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if added != a.announced || a.reported {
		return verdict{}, errors.Errorf("the client announced that it would add %d, but reports %d; try: a client of this program's version", a.announced, added)
	}
	a.reported = true
	a.low += added
	if a.uncertain != math.MaxUint64 {
		a.uncertain -= added
	}
	return a.verdict(), nil
}

// end closes the account, when the client's queue pair is gone. For the last client it
// returns the verdict on the counter, and the ledger begins again with that value.
func (a *account) end() (last bool, v verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.reported {
		a.died++
		if len(a.names) < namedDead {
			a.names = append(a.names, a.name)
		}
	}
	a.clients--
	v = a.verdict()
	if last = a.clients == 0; last {
		a.low, a.uncertain, a.died, a.names = v.Counter, 0, 0, nil
	}
	return last, v
}

// verdict is what can be said of the counter at a moment.
type verdict struct {
	Counter   uint64   `json:"counter"`
	Low       uint64   `json:"low"`
	Uncertain uint64   `json:"uncertain"`       // the counter may be so much more than Low
	Died      int      `json:"died,omitempty"`  // clients whose part is uncertain for good
	Names     []string `json:"names,omitempty"` // of the first of them
}

// namedDead is the maximum number of dead clients that a verdict names, because a verdict must
// fit into one note.
const namedDead = 4

func (l *ledger) verdict() verdict {
	return verdict{Counter: l.counter(), Low: l.low, Uncertain: l.uncertain, Died: l.died, Names: slices.Clone(l.names)}
}

// right reports whether the counter is within the bounds.
func (v verdict) right() bool { return v.Counter-v.Low <= v.Uncertain }

// exact reports whether the bounds are equal.
func (v verdict) exact() bool { return v.Uncertain == 0 }

// String returns the counter and its bounds, with the reason why they are not exact.
func (v verdict) String() string {
	text := fmt.Sprintf("the counter holds %d; the sum of all adds is %d", v.Counter, v.Low)
	if v.exact() {
		return text
	}
	text = fmt.Sprintf("the counter holds %d; the reported adds sum up to %d, and up to %d more may have happened", v.Counter, v.Low, v.Uncertain)
	if v.Died > 0 {
		return fmt.Sprintf("%s, because %d clients died (%s)", text, v.Died, strings.Join(v.Names, ", "))
	}
	return text + ", from clients that still run"
}
