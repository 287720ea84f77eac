// What is kept of latencies: a histogram of fixed size, and the figures that have to
// be exact.

package bench

import "math"

// recorder takes the times of posts. It allocates nothing while it does.
type recorder struct {
	last       int64 // post, in nanoseconds; -1 before the first
	n          int64 // samples
	sum, sumSq float64
	least      int64
	most       [2]int64 // the longest two, the longest last
	histogram  *histogram
}

func newRecorder() recorder {
	return recorder{histogram: new(histogram)}
}

func (c *recorder) reset() {
	h := c.histogram
	*c = recorder{last: -1, least: math.MaxInt64, histogram: h}
	if h != nil {
		clear(h[:])
	}
}

// post takes the time of a post: the sample is the time since the one before.
func (c *recorder) post(now int64) {
	if c.last >= 0 {
		c.add(now - c.last)
	}
	c.last = now
}

func (c *recorder) add(ns int64) {
	c.n++
	c.sum += float64(ns)
	c.sumSq += float64(ns) * float64(ns)
	c.least = min(c.least, ns)
	if ns > c.most[1] {
		c.most[0], c.most[1] = c.most[1], ns
	} else if ns > c.most[0] {
		c.most[0] = ns
	}
	c.histogram.add(min(max(ns, 0), longest))
}

// quantiles are those of a Latency.
var quantiles = []float64{50, 90, 99, 99.9, 99.99}

// Percentiles are the names of a Latency's, in their order.
func Percentiles() []string {
	var names []string
	for _, q := range quantiles {
		names = append(names, percentile(q))
	}
	return names
}

// figures are the samples' figures, divided by ways. As perftest does it, the longest
// two are left out of the average and the deviation, and the second longest is called
// the longest: it is not much of a measurement that one interrupt decides.
func (c *recorder) figures(ways float64) Latency {
	us := func(ns float64) float64 { return ns / ways / 1000 }
	l := Latency{Percentiles: map[string]float64{}}
	if c.n == 0 {
		return l
	}
	l.Samples, l.Min, l.Max, l.Longest = c.n, us(float64(c.least)), us(float64(c.most[0])), us(float64(c.most[1]))
	n, sum, sumSq := float64(c.n), c.sum, c.sumSq
	if c.n > 2 {
		n -= 2
		for _, ns := range c.most {
			sum -= float64(ns)
			sumSq -= float64(ns) * float64(ns)
		}
	} else {
		l.Max = l.Longest
	}
	mean := sum / n
	l.Average, l.Stdev = us(mean), us(math.Sqrt(max(0, sumSq/n-mean*mean)))
	for _, q := range quantiles {
		l.Percentiles[percentile(q)] = min(us(c.at(q)), l.Max)
	}
	l.Typical = l.Percentiles[percentile(50)]
	return l
}

// at is the sample that so many percent of the others are below, without the longest
// two.
func (c *recorder) at(percent float64) float64 {
	rank := int64(math.Ceil(float64(max(c.n-2, 0))*percent/100)) + 1 // from 1
	return float64(c.histogram.at(min(rank, c.n)))
}
