// The axes: the pixel of each value, and the ticks.

package chart

import (
	"math"
	"strconv"
)

// axis maps the values from low to high onto the pixels from start to end.
type axis struct {
	low, high  float64
	start, end float64
	log        bool
	ticks      []tick
}

type tick struct {
	value float64
	name  string // may be empty
}

// at returns the pixel of v.
func (a *axis) at(v float64) float64 {
	part := (v - a.low) / (a.high - a.low)
	if a.log {
		part = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return a.start + part*(a.end-a.start)
}

func (c *Chart) axes() (xs, ys axis) {
	low, high := c.Curves[0].Points[0], c.Curves[0].Points[0]
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			low = Point{min(low.X, p.X), min(low.Y, p.Y)}
			high = Point{max(high.X, p.X), max(high.Y, p.Y)}
		}
	}
	if low.X == high.X && !c.Series { // leave room on both sides of a single value
		low.X, high.X = low.X/2, high.X*2
	}
	if c.Series {
		xs = axis{high: high.X, start: left, end: right, ticks: multiples(high.X)}
	} else {
		xs = axis{low: low.X, high: high.X, start: left, end: right, log: true}
		xs.ticks = powersOfTwo(low.X, high.X, c.XName)
	}
	if c.LogY {
		ys = axis{low: low.Y / 1.2, high: high.Y * 1.2, start: bottom, end: top, log: true}
		ys.ticks = decades(ys.low, ys.high)
		return xs, ys
	}
	if high.Y == 0 {
		high.Y = 1
	}
	ys = axis{high: high.Y * 1.1, start: bottom, end: top}
	ys.ticks = multiples(ys.high)
	return xs, ys
}

// powersOfTwo returns the ticks from low to high. If there are more than 13, only every
// second tick has a name.
func powersOfTwo(low, high float64, name func(float64) string) (ticks []tick) {
	first, last := int(math.Ceil(math.Log2(low))), int(math.Floor(math.Log2(high)))
	every := 1
	if last-first > 12 {
		every = 2
	}
	for n := first; n <= last; n++ {
		t := tick{value: math.Exp2(float64(n))}
		if (n-first)%every == 0 {
			t.name = name(t.value)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// decades returns ticks at the powers of ten from low to high. In a range of up to four
// decades it adds ticks at two and five times each power.
func decades(low, high float64) (ticks []tick) {
	factors := []float64{1, 2, 5}
	if high/low > 1e4 {
		factors = factors[:1]
	}
	for n := int(math.Floor(math.Log10(low))); n <= int(math.Floor(math.Log10(high))); n++ {
		for _, f := range factors {
			if v := f * math.Pow10(n); v >= low && v <= high {
				ticks = append(ticks, tick{v, number(v, n)})
			}
		}
	}
	return ticks
}

// multiples returns ticks at the multiples of a round step from 0 to high: 5 to 11 ticks.
func multiples(high float64) (ticks []tick) {
	n := int(math.Floor(math.Log10(high))) - 1
	factor := 1.0
	for _, f := range []float64{2, 5, 10} {
		if high > 10*factor*math.Pow10(n) {
			factor = f
		}
	}
	if factor == 10 {
		n, factor = n+1, 1
	}
	step := factor * math.Pow10(n)
	for i := 0; float64(i)*step <= high; i++ {
		ticks = append(ticks, tick{float64(i) * step, number(float64(i)*step, n)})
	}
	return ticks
}

// number formats v with the decimal places of 10ⁿ.
func number(v float64, n int) string {
	return strconv.FormatFloat(v, 'f', max(0, -n), 64)
}
