package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBucketsHaveFourDigits checks that each value is in a bucket, that the buckets are
// contiguous, and that none is wider than 1/16384 of its values.
func TestBucketsHaveFourDigits(t *testing.T) {
	if got := bucket(longest); got != len(histogram{})-1 {
		t.Errorf("the longest time is in bucket %d, the last is %d", got, len(histogram{})-1)
	}
	next := int64(0) // lowest value of the next bucket
	for b := range len(histogram{}) {
		low, high := next, highest(b)
		if bucket(low) != b || bucket(high) != b {
			t.Fatalf("bucket %d: its lowest value %d is in bucket %d, its highest %d in %d", b, low, bucket(low), high, bucket(high))
		}
		if float64(high-low) > float64(low)/16384 {
			t.Fatalf("bucket %d is from %d to %d", b, low, high)
		}
		next = high + 1
	}
}

// TestRanksAreThoseOfSortedValues checks that the value of each rank equals that of the sorted
// values, to four digits.
func TestRanksAreThoseOfSortedValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	h := new(histogram)
	values := []int64{0, 0, longest}
	for range 1000 {
		values = append(values, int64(math.Exp(random.Float64()*math.Log(longest))))
	}
	for _, v := range values {
		h.add(v)
	}
	slices.Sort(values)
	for i, want := range values {
		if got := h.at(int64(i + 1)); got < want || float64(got-want) > float64(want)/16384 {
			t.Errorf("rank %d has value %d, want %d", i+1, got, want)
		}
	}
}
