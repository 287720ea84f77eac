// Recording latencies: a histogram of fixed size, and some exact figures.

package measure

import "math"

// recorder records the times of posts. It does not allocate.
type recorder struct {
	last       int64 // time of the last post in nanoseconds; -1 before the first
	n          int64 // number of samples
	sum, sumSq float64
	least      int64
	most       [2]int64 // the two longest, the longest last
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

// post records a post. The sample is the time since the previous post.
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

// quantiles are the percentiles of a Latency.
var quantiles = []float64{50, 90, 99, 99.9, 99.99}

// Percentiles returns the names of a Latency's percentiles, in ascending order.
func Percentiles() []string {
	var names []string
	for _, q := range quantiles {
		names = append(names, percentile(q))
	}
	return names
}

// figures returns the figures of the samples, divided by ways. Like perftest, it excludes the
// two longest samples from the average and the deviation, and reports the second longest as the
// maximum. Otherwise a single interrupt would decide the figure.
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

// at returns the percentile of the samples, without the two longest.
func (c *recorder) at(percent float64) float64 {
	rank := int64(math.Ceil(float64(max(c.n-2, 0))*percent/100)) + 1 // from 1
	return float64(c.histogram.at(min(rank, c.n)))
}
