// Results, and perftest's table of them.

package measure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Result is the result for one message size.
type Result struct {
	Size       int           `json:"size"`       // bytes of each message
	Iterations int64         `json:"iterations"` // counted messages of all queue pairs
	Took       time.Duration `json:"took_ns"`    // time in which they completed

	Bandwidth *Bandwidth `json:"bandwidth,omitempty"` // nil if latency was measured
	Latency   *Latency   `json:"latency,omitempty"`   // nil if bandwidth was
}

// Bandwidth is the bandwidth in one direction, or the sum of both.
type Bandwidth struct {
	Peak     float64 `json:"peak"`     // bytes per second; 0 if it was not measured
	Average  float64 `json:"average"`  // bytes per second
	Messages float64 `json:"messages"` // messages per second
}

// Latency is in microseconds. For SEND and WRITE it is half the round trip, for READ and
// atomics the whole one.
type Latency struct {
	Samples int64   `json:"samples"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`     // the second longest; see Longest
	Longest float64 `json:"longest"` // the longest, which perftest does not report
	Typical float64 `json:"typical"` // the median
	Average float64 `json:"average"`
	Stdev   float64 `json:"stdev"`

	Percentiles map[string]float64 `json:"percentiles"` // by "50", "90", "99", "99.9", "99.99"
	Rate        float64            `json:"rate"`        // round trips per second
}

func percentile(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }

// ways returns the number of one-way trips in a sample of latency.
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

// Sum returns the sum of both directions, as perftest reports it.
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
	bytes float64 // bytes per second
}

// The units of perftest.
var (
	MB = Unit{"MB/sec", 1 << 20} // 2^20 bytes
	Gb = Unit{"Gb/sec", 125e6}   // 10^9 bits
)

// Of converts bytes per second to the unit.
func (u Unit) Of(bytes float64) float64 { return bytes / u.bytes }

// Header returns the header of perftest's table.
func (p *Plan) Header(u Unit) string {
	switch {
	case !p.Latency:
		return fmt.Sprintf(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]", u.Name, u.Name)
	case p.Duration > 0:
		return " #bytes        #iterations       t_avg[usec]    tps average"
	}
	return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
}

// Row returns the row of perftest's table for a result.
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
