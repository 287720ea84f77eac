package host

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Processors returns the number of this host's processors, which is the same in all processes that start before it changes.
// On systems other than Linux it returns how many this process may use.
func Processors() int {
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err == nil {
		if n, ok := countList(string(list)); ok {
			return n
		}
	}
	return runtime.NumCPU()
}

// countList counts the numbers in a list such as "0-3,7".
func countList(list string) (n int, ok bool) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		if err != nil {
			return 0, false
		}
		to, err := strconv.Atoi(high)
		if err != nil || to < from {
			return 0, false
		}
		n += to - from + 1
	}
	return n, true
}
