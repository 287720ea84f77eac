// What came of a measuring, and perftest's table of it.

package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Result is one size's.
type Result struct {
	Size       int           `json:"size"`       // bytes of each message
	Iterations int64         `json:"iterations"` // messages that were counted, of all queue pairs
	Took       time.Duration `json:"took_ns"`    // in which they completed

	Bandwidth *Bandwidth `json:"bandwidth,omitempty"` // nil if latency was measured
	Latency   *Latency   `json:"latency,omitempty"`   // nil if bandwidth was
}

// Bandwidth is what went in one direction, or in both together.
type Bandwidth struct {
	Peak     float64 `json:"peak"`     // bytes a second; 0 if it was not looked for
	Average  float64 `json:"average"`  // bytes a second
	Messages float64 `json:"messages"` // a second
}

// Latency is in microseconds: half the way there and back by SEND and WRITE, all of it
// by READ and atomics.
type Latency struct {
	Samples int64   `json:"samples"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`     // the second longest: see Longest
	Longest float64 `json:"longest"` // which perftest leaves out
	Typical float64 `json:"typical"` // the median
	Average float64 `json:"average"`
	Stdev   float64 `json:"stdev"`

	Percentiles map[string]float64 `json:"percentiles"` // by "50", "90", "99", "99.9", "99.99"
	Rate        float64            `json:"rate"`        // ways there and back a second
}

func percentile(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }

// ways is how many ways to the peer a sample of latency has.
func (p *Plan) ways() float64 {
	if p.Op == Send || p.Op == Write {
		return 2
	}
	return 1
}

func (r *Run) result() Result {
	res := Result{Size: r.size, Iterations: r.counted}
	res.Took = time.Duration(r.peak.to - r.peak.from)
	if r.Latency {
		res.Took = time.Duration(r.latency.sum)
	}
	if r.Duration > 0 {
		res.Took = r.period.sampled
	}
	if r.Latency {
		if r.Duration == 0 {
			res.Iterations = int64(r.Iterations)
		}
		l := r.latency.figures(r.ways())
		if timed := l.Samples; res.Took > 0 {
			if r.Duration > 0 {
				timed = res.Iterations
			}
			l.Rate = float64(timed) / res.Took.Seconds()
		}
		if r.Duration > 0 && res.Iterations > 0 {
			l.Average = float64(res.Took.Nanoseconds()) / 1000 / r.ways() / float64(res.Iterations)
		}
		res.Latency = &l
		return res
	}
	b := Bandwidth{}
	if res.Took > 0 {
		b.Messages = float64(res.Iterations) / res.Took.Seconds()
		b.Average = b.Messages * float64(r.size)
	}
	if least := r.peak.least(); r.peak.wanted && least > 0 {
		b.Peak = float64(r.size) / least * 1e9
	}
	res.Bandwidth = &b
	return res
}

// Sum is what both directions came to: perftest adds them.
func Sum(mine, peers Result) Result {
	a, b := mine.Bandwidth, peers.Bandwidth
	if a != nil && b != nil {
		mine.Bandwidth = &Bandwidth{Peak: a.Peak + b.Peak, Average: a.Average + b.Average, Messages: a.Messages + b.Messages}
	}
	return mine
}

// Unit is a unit of bandwidth.
type Unit struct {
	Name  string
	bytes float64 // a second
}

// The units of perftest.
var (
	MB = Unit{"MB/sec", 1 << 20} // 2^20 bytes
	Gb = Unit{"Gb/sec", 125e6}   // 10^9 bits
)

// Of is a number of bytes a second in the unit.
func (u Unit) Of(bytes float64) float64 { return bytes / u.bytes }

// Header names the table's columns, as perftest does.
func (p *Plan) Header(u Unit) string {
	switch {
	case !p.Latency:
		return fmt.Sprintf(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]", u.Name, u.Name)
	case p.Duration > 0:
		return " #bytes        #iterations       t_avg[usec]    tps average"
	}
	return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
}

// Row is the table's line of a result.
func (p *Plan) Row(r Result, u Unit) string { return strings.TrimRight(p.row(r, u), " ") }

func (p *Plan) row(r Result, u Unit) string {
	switch l, b := r.Latency, r.Bandwidth; {
	case b != nil:
		places := 2
		if u == Gb && u.Of(b.Average) < 0.1 {
			places = 6
		}
		return fmt.Sprintf(" %-7d    %-10d       %-7.*f            %-7.*f             %-7.6f",
			r.Size, r.Iterations, places, u.Of(b.Peak), places, u.Of(b.Average), b.Messages/1e6)
	case p.Duration > 0:
		return fmt.Sprintf(" %-7d       %d            %-7.2f        %-7.2f", r.Size, r.Iterations, l.Average, l.Rate)
	default:
		return fmt.Sprintf(" %-7d %d          %-7.2f        %-7.2f      %-7.2f          %-7.2f          %-7.2f         %-7.2f                %-7.2f",
			r.Size, r.Iterations, l.Min, l.Max, l.Typical, l.Average, l.Stdev, l.Percentiles["99"], l.Percentiles["99.9"])
	}
}
