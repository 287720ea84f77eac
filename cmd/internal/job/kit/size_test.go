package kit

import (
	"math"
	"testing"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]struct {
		bytes int64
		print string
	}{
		"0": {0, "0"}, "1": {1, "1"}, "4097": {4097, "4097"}, "4096": {4096, "4K"}, "64K": {65536, "64K"}, "64k": {65536, "64K"},
		"64KiB": {65536, "64K"}, "1M": {1 << 20, "1M"}, "1024K": {1 << 20, "1M"}, "10G": {10 << 30, "10G"}, "1T": {1 << 40, "1T"}, "1.5K": {1536, "1536"},
	} {
		var s Size
		if err := s.Set(text); err != nil || int64(s) != want.bytes || s.String() != want.print {
			t.Errorf("%q: %d %q %v, want %d %q", text, int64(s), s, err, want.bytes, want.print)
		}
	}
	for _, text := range []string{"", "K", "-1", "4Q", "one", "1 2", "9999999T", "6000000T"} {
		var s Size
		if err := s.Set(text); err == nil {
			t.Errorf("%q was taken for %d", text, s)
		}
	}
}

// TestSizesOf32Bits checks that a size that does not fit into an int is refused.
func TestSizesOf32Bits(t *testing.T) {
	const size Size = math.MaxInt32 + 1
	if err := CheckBuffer(size); (err != nil) != (math.MaxInt == math.MaxInt32) {
		t.Errorf("%v: %v", size, err)
	}
}
