// When what is moved is a stream.

package softroce

import "testing"

const kib = 1 << 10

// TestTraffic moves bytes in parts of one size.
func TestTraffic(t *testing.T) {
	for name, c := range map[string]struct {
		in, out int // bytes of each receive, and of what is sent then
		stream  bool
	}{
		"WRITEs arrive":       {64 * kib, 64, true},
		"WRITEs leave":        {64, 256 * kib, true},
		"an echo of 64 KiB":   {66 * kib, 66 * kib, false},
		"requests of 8 bytes": {64, 64, false},
		"READs of 4 KiB":      {4 * kib, 32, false},
	} {
		var tr traffic
		for range 2 * muchReceives {
			tr.moved(c.in, 0)
			tr.moved(0, c.out)
		}
		if tr.stream.Load() != c.stream {
			t.Errorf("%s: a stream %v", name, tr.stream.Load())
		}
		for range muchReceives {
			tr.moved(64, 0)
			tr.moved(0, 64)
		}
		if tr.stream.Load() {
			t.Errorf("%s: still a stream after %d small receives", name, muchReceives)
		}
	}
}
