package atomic

import (
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// hold sets the counter, as the clients' atomics would.
func (l *ledger) hold(n uint64) { atomic.StoreUint64(&l.words[0], n) }

func mustReport(t *testing.T, a *account, added uint64) verdict {
	t.Helper()
	v, err := a.report(added)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func expectVerdict(t *testing.T, v verdict, low, uncertain uint64, right bool) {
	t.Helper()
	if v.Low != low || v.Uncertain != uncertain || v.right() != right || v.exact() != (uncertain == 0) {
		t.Errorf("%+v (right: %v), want low %d, uncertain %d, right: %v", v, v.right(), low, uncertain, right)
	}
}

func TestLedgerOfOne(t *testing.T) {
	for i, test := range []struct {
		add, holds uint64 // value of the counter afterwards
		right      bool
	}{
		{10, 10, true},
		{5, 4, false}, // one add is lost
		{5, 6, false}, // one add too many
	} {
		var all ledgers
		a := all.join("", "a", test.add)
		a.hold(test.holds)
		v := mustReport(t, a, test.add)
		expectVerdict(t, v, test.add, 0, test.right)
		if want := 1; test.right && v.Sharers != nil || !test.right && len(v.Sharers) != want {
			t.Errorf("%d: it names %v", i, v.Sharers)
		}
		if last, v := a.end(); !last || v.right() != test.right || len(all.shared) != 0 {
			t.Errorf("%d: at the end: %v, %+v", i, last, v)
		}
	}
}

// TestALiarSpoilsOnlyItsCounter has a client that adds more than it announced. The clients that share
// its counter learn who it may be; others have counters of their own.
func TestALiarSpoilsOnlyItsCounter(t *testing.T) {
	var all ledgers
	alone, liar, sharer, elsewhere := all.join("", "alone", 1), all.join("x", "liar", 1), all.join("x", "sharer", 1), all.join("y", "elsewhere", 1)
	for _, a := range []*account{alone, sharer, elsewhere} {
		atomic.AddUint64(&a.words[0], 1)
	}
	atomic.AddUint64(&liar.words[0], 1000)
	for _, a := range []*account{alone, elsewhere, sharer} {
		v := mustReport(t, a, 1)
		if v.right() != (a != sharer) {
			t.Errorf("%s: %v", a.name, v)
		}
		err := v.log(slog.New(slog.DiscardHandler), 1)
		if a == sharer && (err == nil || !strings.Contains(err.Error(), "one of the counter's clients (liar, sharer) does not report all that it adds; try: --counter")) {
			t.Error(err)
		}
	}
	for _, a := range []*account{alone, liar, sharer, elsewhere} {
		a.end()
	}
	if len(all.shared) != 0 {
		t.Errorf("%d counters are left", len(all.shared))
	}
	next := all.join("x", "next", 1)
	next.hold(1)
	expectVerdict(t, mustReport(t, next, 1), 1, 0, true)
}

func TestLedgerOfSeveral(t *testing.T) {
	l := newLedger()
	a, b := l.join("a", 10), l.join("b", 100)
	l.hold(60)
	expectVerdict(t, mustReport(t, a, 10), 10, 100, true)
	if last, _ := a.end(); last {
		t.Error("a was not the last")
	}
	c := l.join("c", 1000)
	l.hold(9) // less than a has added
	expectVerdict(t, l.verdict(), 10, 1100, false)
	l.hold(1111) // more than all of them
	expectVerdict(t, l.verdict(), 10, 1100, false)
	l.hold(1110)
	expectVerdict(t, mustReport(t, b, 100), 110, 1000, true)
	expectVerdict(t, mustReport(t, c, 1000), 1110, 0, true)
}

// TestLedgerAfterADeath checks that a client that dies is in every verdict until all clients
// are gone, and in none after that.
func TestLedgerAfterADeath(t *testing.T) {
	l := newLedger()
	dying, other := l.join("10.0.0.9:5", 100), l.join("b", 10)
	l.hold(47 + 10)
	if last, _ := dying.end(); last {
		t.Error("b is there yet")
	}
	v := mustReport(t, other, 10)
	expectVerdict(t, v, 10, 100, true)
	if text := v.String(); !strings.Contains(text, "up to 100 more may have happened, because 1 clients died (10.0.0.9:5)") {
		t.Error(text)
	}
	if last, v := other.end(); !last || !v.right() || v.exact() || v.Died != 1 {
		t.Errorf("at the end: %v, %+v", last, v)
	}
}

func TestLedgerRefuses(t *testing.T) {
	l := newLedger()
	a := l.join("a", 10)
	if _, err := a.report(11); err == nil || !strings.Contains(err.Error(), "announced that it would add 10, but reports 11; try:") {
		t.Error(err)
	}
	l.hold(10)
	expectVerdict(t, mustReport(t, a, 10), 10, 0, true)
	if _, err := a.report(10); err == nil {
		t.Error("reported twice")
	}
}

// TestLedgerOfTheDead checks that a verdict names only some of many dead clients.
func TestLedgerOfTheDead(t *testing.T) {
	l := newLedger()
	a := l.join("a", 1)
	for range 1000 {
		l.join("dead", 1).end()
	}
	if v := mustReport(t, a, 1); v.Died != 1000 || len(v.Names) != named || v.Uncertain != 1000 {
		t.Errorf("%+v", v)
	}
}

// TestLedgerAtTheEdges checks a counter that wraps, and announcements beyond 2^64.
func TestLedgerAtTheEdges(t *testing.T) {
	l := newLedger()
	l.low = math.MaxUint64 - 4
	a := l.join("a", 10)
	l.hold(5)
	expectVerdict(t, mustReport(t, a, 10), 5, 0, true)
	a.end()

	l.join("b", math.MaxUint64-1)
	l.join("c", 2)
	d := l.join("d", 7)
	expectVerdict(t, mustReport(t, d, 7), 12, math.MaxUint64, true)
}

// TestLedgerSideBySide lets clients come and go concurrently, half of them dying. The verdicts
// must stay right.
func TestLedgerSideBySide(t *testing.T) {
	var all ledgers
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for range 200 {
				a := all.join("shared", "a", 10)
				for n := range 10 {
					if i%2 == 1 && n == i {
						break
					}
					atomic.AddUint64(&a.words[0], 1)
				}
				if i%2 == 0 {
					if v, err := a.report(10); err != nil || !v.right() {
						t.Errorf("%v, %v", v, err)
					}
				}
				if _, v := a.end(); !v.right() {
					t.Errorf("at the end: %v", v)
				}
			}
		})
	}
	clients.Wait()
	if len(all.shared) != 0 {
		t.Errorf("%d counters are left", len(all.shared))
	}
}
