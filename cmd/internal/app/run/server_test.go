package run

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSeconds checks that the seconds of a client's line have at most three decimals.
func TestSeconds(t *testing.T) {
	for _, d := range []time.Duration{0, 400 * time.Microsecond, 12345678, 1651045 * time.Microsecond, 987654321 * time.Millisecond} {
		text := strconv.FormatFloat(seconds(d), 'f', -1, 64)
		if _, decimals, _ := strings.Cut(text, "."); len(decimals) > 3 || math.Abs(seconds(d)-d.Seconds()) > 0.0006 {
			t.Errorf("%v is %s s", d, text)
		}
	}
}
