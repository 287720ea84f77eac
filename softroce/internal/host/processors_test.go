package host

import (
	"runtime"
	"testing"
)

func TestCountList(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-3\n": 4, "0-3,7\n": 5, "2,4-5,8-15": 11, "": 0, "\n": 0, "3-1": 0, "a-b": 0, "1-": 0} {
		if n, ok := countList(list); n != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", list, n, ok, want)
		}
	}
	if n := Processors(); n < runtime.NumCPU() {
		t.Errorf("%d processors, and this process may use %d", n, runtime.NumCPU())
	}
}
