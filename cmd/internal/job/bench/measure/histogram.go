// A histogram of times with a fixed size and four significant digits.

package measure

import "math/bits"

// Each power of two has 2^histogramDigits buckets of equal width. The width is at most 1/16384
// of the value: four decimal digits. Smaller values have one bucket each.
const (
	histogramDigits = 14
	histogramPowers = 37 - histogramDigits // powers of two above the values with one bucket each
)

// longest is the longest time that a histogram can hold, in nanoseconds: 137 s.
const longest = 1<<37 - 1

// histogram counts values from 0 to longest.
type histogram [(histogramPowers + 1) << histogramDigits]int64

// bucket returns the index of a value's bucket.
func bucket(v int64) int {
	power := max(0, bits.Len64(uint64(v))-1-histogramDigits)
	return power<<histogramDigits + int(v>>power)
}

// highest returns the highest value of a bucket.
func highest(bucket int) int64 {
	power := max(0, bucket>>histogramDigits-1)
	return (int64(bucket-power<<histogramDigits)+1)<<power - 1
}

func (h *histogram) add(v int64) { h[bucket(v)]++ }

// at returns the value of a rank, rounded up to the highest value of its bucket. The lowest
// rank is 1.
func (h *histogram) at(rank int64) int64 {
	for bucket, n := range h {
		if rank -= n; rank <= 0 {
			return highest(bucket)
		}
	}
	return longest
}
