package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSettle checks perftest's rules.
func TestSettle(t *testing.T) {
	for _, test := range []struct {
		name                string
		plan                Plan
		tx, rx, mod, inline int
	}{
		{"write, a large message", Defaults(Write, false), 128, 1, 1, 0},
		{"write, a small one", plan(Write, false, func(p *Plan) { p.Size = 8192 }), 128, 1, 100, 0},
		{"write, one byte more", plan(Write, false, func(p *Plan) { p.Size = 8193 }), 128, 1, 1, 0},
		{"explicit moderation", plan(Write, false, func(p *Plan) { p.CQMod = 50 }), 128, 1, 50, 0},
		{"moderation above the depth", plan(Write, false, func(p *Plan) { p.CQMod, p.TxDepth = 50, 20 }), 20, 1, 20, 0},
		{"few iterations", plan(Send, false, func(p *Plan) { p.Iterations, p.Size = 10, 2 }), 10, 10, 10, 0},
		{"a duration", plan(Send, false, func(p *Plan) { p.Duration, p.Iterations = time.Second, 10 }), 128, 512, 1, 0},
		{"lists", plan(Send, false, func(p *Plan) { p.PostList, p.Iterations = 32, 1024 }), 128, 512, 32, 0},
		{"lists that complete more often", plan(Send, false, func(p *Plan) { p.PostList, p.Iterations, p.CQMod = 32, 1024, 8 }), 128, 512, 8, 0},
		{"by events", plan(Write, false, func(p *Plan) { p.Events = true }), 128, 1, 100, 0},
		{"all sizes", plan(Write, false, func(p *Plan) { p.All = true }), 128, 1, 100, 0},
		{"latency", Defaults(Send, true), 1, 512, 1, 0},
		{"inline", plan(Send, true, func(p *Plan) { p.Inline = 64 }), 1, 100, 1, 64},
		{"a READ is not inline", plan(Read, true, func(p *Plan) { p.Inline = 64 }), 1, 1, 1, 0},
	} {
		p := test.plan
		if err := p.Settle(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if p.TxDepth != test.tx || p.RxDepth != test.rx || p.CQMod != test.mod || p.Inline != test.inline {
			t.Errorf("%s: tx %d, rx %d, moderation %d, inline %d; want %d, %d, %d, %d",
				test.name, p.TxDepth, p.RxDepth, p.CQMod, p.Inline, test.tx, test.rx, test.mod, test.inline)
		}
	}
}

func TestSettleRefuses(t *testing.T) {
	for _, test := range []struct {
		plan Plan
		want string
	}{
		{plan(Write, false, func(p *Plan) { p.Size = 0 }), "0 bytes in a message cannot be measured; try: -s from 1"},
		{plan(Write, false, func(p *Plan) { p.Size = 1<<30 + 1 }), "try: -s from 1 to 1073741824"},
		{plan(Write, false, func(p *Plan) { p.Iterations = 0 }), "0 iterations cannot be measured; try: -n from 5"},
		{plan(Write, false, func(p *Plan) { p.Iterations = 4 }), "4 iterations"},
		{plan(Write, false, func(p *Plan) { p.TxDepth = 15001 }), "-t from 1 to 15000"},
		{plan(Send, false, func(p *Plan) { p.RxDepth = 0 }), "-r from 1 to 16384"},
		{plan(Send, false, func(p *Plan) { p.CQMod = 1025 }), "--cq-mod from 0 to 1024"},
		{plan(Send, false, func(p *Plan) { p.Inline = -1 }), "-I from 0"},
		{plan(Send, false, func(p *Plan) { p.QPs = 0 }), "-q from 1"},
		{plan(Atomic, false, func(p *Plan) { p.Size = 16 }), "always has 8 bytes"},
		{plan(Atomic, true, func(p *Plan) { p.All = true }), "always has 8 bytes"},
		{plan(Write, true, func(p *Plan) { p.QPs = 2 }), "without -q, -l and -b"},
		{plan(Write, true, func(p *Plan) { p.Both = true }), "a bandwidth job"},
		{plan(Write, true, func(p *Plan) { p.Events = true }), "without -e"},
		{plan(Send, false, func(p *Plan) { p.Events, p.Both = true, true }), "without -e"},
		{plan(Write, false, func(p *Plan) { p.PostList = 7 }), "try: -n 301"},
		{plan(Write, false, func(p *Plan) { p.PostList, p.TxDepth = 20, 10 }), "try: -t 20 or more"},
		{plan(Write, false, func(p *Plan) { p.PostList, p.CQMod = 20, 3 }), "try: --cq-mod 20"},
		{plan(Write, false, func(p *Plan) { p.Duration, p.All = time.Second, true }), "-n instead of -D"},
		{plan(Write, false, func(p *Plan) { p.Duration, p.Events = time.Second, true }), "without -e"},
		{plan(Write, false, func(p *Plan) { p.Duration, p.Margin = 2*time.Second, time.Second }), "a longer -D"},
		{plan(Write, false, func(p *Plan) { p.Duration = 25 * time.Hour }), "try: -D from 1 to 86400 seconds"},
	} {
		p := test.plan
		if err := p.Settle(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v, want %q", err, test.want)
		}
	}
}

func TestSizes(t *testing.T) {
	p := plan(Write, false, func(p *Plan) { p.All = true })
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	sizes := p.Sizes()
	if len(sizes) != 23 || sizes[0] != 2 || sizes[22] != 8<<20 || p.Bytes() != 16<<20 {
		t.Errorf("sizes %v, %d bytes of memory", sizes, p.Bytes())
	}
}

// TestPlaces checks that small messages have their own cache lines and stay within a page, and
// that each queue pair has a slot in each half.
func TestPlaces(t *testing.T) {
	p := plan(Write, false, func(p *Plan) { p.QPs = 2 })
	for size, want := range map[int][2]int64{1: {64, 64}, 64: {64, 64}, 65: {32, 128}, 2048: {2, 2048}, 2049: {1, 0}, 1 << 20: {1, 0}} {
		if count, step := p.places(size); [2]int64{count, step} != want {
			t.Errorf("messages of %d bytes: %d places, %d bytes apart; want %v", size, count, step, want)
		}
	}
	if p.Bytes() != 4*65536 || p.RemoteOffset(0) != 2*65536 || p.RemoteOffset(1) != 3*65536 {
		t.Errorf("%d bytes of memory, with the peer's slots at %d and %d", p.Bytes(), p.RemoteOffset(0), p.RemoteOffset(1))
	}
}

// TestPeak compares the peak with the best of all intervals.
func TestPeak(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		list := 1 + random.IntN(3)
		mod := 1 + random.IntN(4)
		n := list * (1 + random.IntN(60))
		var p peak
		p.reset(true, int64(n), list)
		at := int64(0)
		posted := 0
		for done := 0; done < n; {
			at += int64(1 + random.IntN(1000))
			if posted < n && random.IntN(2) == 0 {
				p.post(at)
				posted += list
			} else if next := min(done+mod, n); next <= posted {
				done = next
				p.complete(int64(done), at)
			}
		}
		want := math.Inf(1)
		for i, post := range p.posts {
			for _, c := range p.completed {
				if messages := c.messages - int64(i*list); messages > 0 {
					want = min(want, float64(c.at-post)/float64(messages))
				}
			}
		}
		if got := p.least(); got != want {
			t.Errorf("seed %d: the shortest time per message is %v, want %v", seed, got, want)
		}
	}
}

// TestFigures checks that the figures of latency are perftest's, which exclude the two longest
// samples.
func TestFigures(t *testing.T) {
	c := newRecorder()
	c.reset()
	random := rand.New(rand.NewPCG(1, 2))
	var samples []int64
	at := int64(5)
	c.post(at)
	for range 1002 {
		ns := 1000 + random.Int64N(9000)
		samples = append(samples, ns)
		at += ns
		c.post(at)
	}
	slices.Sort(samples)
	l := c.figures(2)
	kept := samples[:1000]
	sum, squares := 0.0, 0.0
	for _, ns := range kept {
		sum += float64(ns)
	}
	for _, ns := range kept {
		squares += math.Pow(float64(ns)-sum/1000, 2)
	}
	us := func(ns float64) float64 { return ns / 2000 }
	for _, figure := range []struct {
		name      string
		got, want float64
	}{
		{"samples", float64(l.Samples), 1002},
		{"min", l.Min, us(float64(samples[0]))},
		{"max", l.Max, us(float64(samples[1000]))},
		{"longest", l.Longest, us(float64(samples[1001]))},
		{"average", l.Average, us(sum / 1000)},
		{"stdev", l.Stdev, us(math.Sqrt(squares / 1000))},
		{"typical", l.Typical, us(float64(samples[501]))},
		{"99 %", l.Percentiles["99"], us(float64(samples[991]))},
		{"99.9 %", l.Percentiles["99.9"], us(float64(samples[1000]))},
	} {
		if math.Abs(figure.got-figure.want) > figure.want*0.01 {
			t.Errorf("%s is %v, want %v", figure.name, figure.got, figure.want)
		}
	}
}
