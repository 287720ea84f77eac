// A histogram of times: a fixed size, and four digits of each.

package bench

import "math/bits"

// The values of each power of two share 2^histogramDigits buckets, which are at most
// 1/16384 of the value wide: four decimal digits. Smaller values have a bucket each.
const (
	histogramDigits = 14
	histogramPowers = 37 - histogramDigits // above those of a bucket each
)

// longest is the longest time that a histogram takes, in nanoseconds: 137 s.
const longest = 1<<37 - 1

// histogram counts values from 0 to longest.
type histogram [(histogramPowers + 1) << histogramDigits]int64

// bucket is the index of a value's bucket.
func bucket(v int64) int {
	power := max(0, bits.Len64(uint64(v))-1-histogramDigits)
	return power<<histogramDigits + int(v>>power)
}

// highest is the highest value of a bucket.
func highest(bucket int) int64 {
	power := max(0, bucket>>histogramDigits-1)
	return (int64(bucket-power<<histogramDigits)+1)<<power - 1
}

func (h *histogram) add(v int64) { h[bucket(v)]++ }

// at is the value of a rank, the lowest being 1, rounded up to the highest of its bucket.
func (h *histogram) at(rank int64) int64 {
	for bucket, n := range h {
		if rank -= n; rank <= 0 {
			return highest(bucket)
		}
	}
	return longest
}
