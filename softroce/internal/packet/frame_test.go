package packet

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestOnesSum compares the sum with one of 16-bit words, of all short lengths and of words that carry.
func TestOnesSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32()) | byte(0xff*(n%2)) // all ones in every second one
		}
		start := r.Uint32() >> 8
		want := uint64(start)
		for i := 0; i+1 < n; i += 2 {
			want += uint64(binary.BigEndian.Uint16(b[i:]))
		}
		if n%2 == 1 {
			want += uint64(b[n-1]) << 8
		}
		for want > 0xffff {
			want = want>>16 + want&0xffff
		}
		if got := onesSum(start, b); got != uint16(want) {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}

func BenchmarkOnesSum(b *testing.B) {
	payload := make([]byte, 4096)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		onesSum(0, payload)
	}
}
