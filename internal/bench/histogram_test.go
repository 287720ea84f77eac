package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Each value is in a bucket, the buckets follow one another, and none is wider than
// 1/16384 of its values.
func TestBucketsHaveFourDigits(t *testing.T) {
	if got := bucket(longest); got != len(histogram{})-1 {
		t.Errorf("the longest time is in bucket %d, the last is %d", got, len(histogram{})-1)
	}
	next := int64(0) // the lowest value of the next bucket
	for b := range len(histogram{}) {
		low, high := next, highest(b)
		if bucket(low) != b || bucket(high) != b {
			t.Fatalf("bucket %d: %d is in %d, and %d in %d", b, low, bucket(low), high, bucket(high))
		}
		if float64(high-low) > float64(low)/16384 {
			t.Fatalf("bucket %d is from %d to %d", b, low, high)
		}
		next = high + 1
	}
}

// The value of each rank is that of the sorted values, to four digits.
func TestRanksAreThoseOfSortedValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	h := new(histogram)
	values := []int64{0, 0, longest}
	for range 5000 {
		values = append(values, int64(math.Exp(random.Float64()*math.Log(longest))))
	}
	for _, v := range values {
		h.add(v)
	}
	slices.Sort(values)
	for i, want := range values {
		if got := h.at(int64(i + 1)); got < want || float64(got-want) > float64(want)/16384 {
			t.Errorf("rank %d is %d, want %d", i+1, got, want)
		}
	}
}
