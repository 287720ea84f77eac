// The sum of the job "atomic": the bounds of a counter that clients share.
//
// Each client first announces how much it will add, and reports later that it has added all of
// it. Between the announcement and the report, any part of the client's sum may be in the
// counter. So at each moment the counter must lie between
//
//	low:  the value at the beginning plus all reported sums,
//	high: low plus all sums that are announced and not reported.
//
// A client that reports while others are at work gets these bounds. When the last client
// reports, low equals high, and the sum is checked exactly.
//
// If a client dies, its part stays uncertain, because only the device saw its operations. A
// slot in which the client counts its operations by RDMA would not help: the counter and the
// slot need two operations, and the client may die between them. So the announced sum stays in
// high, and the verdicts for the other clients say that. These verdicts remain right. When no
// client is left, all queue pairs are gone, and no operation can arrive any more. The counter is
// then dropped. The next client of its name gets a new one, with 0.
//
// A client can add any number, and the device does not report which client added what. So the verdict on
// a wrong sum names the first four clients that used the counter.
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

// ledgers are the shared counters of a server, by name.
type ledgers struct {
	mu     sync.Mutex
	shared map[string]*ledger
}

// join opens the account of a client that announced how much it will add to the counter called name.
// Without a name the counter is the client's own.
func (s *ledgers) join(name, client string, announced uint64) *account {
	if name == "" {
		return newLedger().join(client, announced)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		s.shared = make(map[string]*ledger)
	}
	l := s.shared[name]
	if l == nil {
		l = newLedger()
		s.shared[name] = l
	}
	a := l.join(client, announced)
	a.drop = func() { delete(s.shared, name) }
	a.dropping = &s.mu
	return a
}

// ledger is a counter with its bounds.
type ledger struct {
	mu        sync.Mutex
	low       uint64
	uncertain uint64 // high minus low; all ones if the sum of all announcements passed 2^64
	clients   int    // number of clients whose queue pairs may still exist
	died      int
	names     []string // of the first clients that died, at most named
	sharers   []string // the first clients that had the counter, at most named

	words []uint64 // the counter is the first; the rest of the page is unused
}

func newLedger() *ledger { return &ledger{words: make([]uint64, 4096/8)} }

// memory returns the counter's 8 bytes, which begin at a multiple of 8.
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

	dropping *sync.Mutex // of the ledgers; nil if the counter is the client's own
	drop     func()      // drops the counter
}

// join opens the account of a client that announced how much it will add.
func (l *ledger) join(name string, announced uint64) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	if len(l.sharers) < named {
		l.sharers = append(l.sharers, name)
	}
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

// end closes the account, when the client's queue pair is gone. For the last client it returns the
// verdict on the counter, and the counter is dropped.
func (a *account) end() (last bool, v verdict) {
	if a.dropping != nil {
		a.dropping.Lock()
		defer a.dropping.Unlock()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.reported {
		a.died++
		if len(a.names) < named {
			a.names = append(a.names, a.name)
		}
	}
	a.clients--
	if last = a.clients == 0; last && a.drop != nil {
		a.drop()
	}
	return last, a.verdict()
}

// verdict compares the counter with its bounds at one moment.
type verdict struct {
	Counter   uint64   `json:"counter"`
	Low       uint64   `json:"low"`
	Uncertain uint64   `json:"uncertain"`         // the counter may exceed Low by this much
	Died      int      `json:"died,omitempty"`    // number of clients that died; their part stays uncertain
	Names     []string `json:"names,omitempty"`   // of the first clients that died
	Sharers   []string `json:"sharers,omitempty"` // if the sum is wrong: the first clients that had the counter
}

// named is the maximum number of clients that a verdict names, because it must fit into one note.
const named = 4

func (l *ledger) verdict() verdict {
	v := verdict{Counter: l.counter(), Low: l.low, Uncertain: l.uncertain, Died: l.died, Names: slices.Clone(l.names)}
	if !v.right() {
		v.Sharers = slices.Clone(l.sharers)
	}
	return v
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
