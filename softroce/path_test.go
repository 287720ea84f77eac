// Many queue pairs to one address: they share the receive buffer there.

package softroce_test

import (
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// BenchmarkSharedPath compares WRITEs of 256 KiB over several queue pairs, four in flight on each, with
// the same over one. Both use the same amount of memory, so that caches do not favour the one. timeouts and overflows are those of the runs with several queue pairs.
// In the last case the receive buffers are those of an ordinary user.
func BenchmarkSharedPath(b *testing.B) {
	for _, c := range []struct {
		name, device string
		n            int
	}{{"16-QPs", "soft0", 16}, {"64-QPs", "soft0", 64}, {"4-QPs-small-buffer", softroce.SmallBufferName, 4}} {
		b.Run(c.name, func(b *testing.B) { sharedPath(b, c.device, c.n, c.name) })
	}
}

const partSize = 256 << 10

func sharedPath(b *testing.B, device string, n int, name string) {
	const size, perRound = partSize, 1024
	x, y := openSoft(b, device), openSoft(b, device)
	group := func(k int) func() {
		streams := make([]*stream, k)
		for i := range streams {
			streams[i] = newStream(b, x, y, verbs.OpRDMAWrite, n/k*size)
			streams[i].wrs[0].SGL[0].Length = size
		}
		return func() {
			var all sync.WaitGroup
			for _, s := range streams {
				all.Go(func() { s.parts(b, size, perRound/k) })
			}
			all.Wait()
		}
	}
	many, one := group(n), group(1)
	timeouts, overflows := uint64(0), uint64(0)
	counted := func() {
		before, dropped := counter(b, x, "timeouts"), counter(b, y, "link_drop_overflow")
		many()
		timeouts += counter(b, x, "timeouts") - before
		overflows += counter(b, y, "link_drop_overflow") - dropped
	}
	against(b, [2]string{name, "1-QP"}, "GB/s", float64(size*perRound)/1e9, [2]func(){counted, one})
	b.ReportMetric(float64(timeouts), "timeouts")
	b.ReportMetric(float64(overflows), "overflows")
}

// TestSharedPath moves messages over several queue pairs to a small receive buffer. TestWindow checks how much may be in flight,
// and TestRouteIsShared of package transport that the queue pairs share that. BenchmarkSharedPath counts the overflows: there are
// some if the receiver has to wait for a processor, because the senders then repeat packets.
func TestSharedPath(t *testing.T) {
	x, y := openSoft(t, softroce.SmallBufferName), openSoft(t, softroce.SmallBufferName)
	var all sync.WaitGroup
	for range 8 {
		s := newStream(t, x, y, verbs.OpRDMAWrite, partSize)
		all.Go(func() { s.parts(t, partSize, 40) })
	}
	all.Wait()
}

// parts moves n messages to one part of the region after the other.
func (s *stream) parts(tb testing.TB, size, n int) {
	for i := range n {
		off := i * size % s.mr.Len()
		s.wrs[0].SGL[0].Addr = s.mr.Addr() + uint64(off)
		s.wrs[0].RemoteAddr = s.remote.Addr() + uint64(off)
		if err := s.conn.QP().PostSend(s.wrs); err != nil {
			tb.Error(err)
			return
		}
		if i >= inQueue-1 {
			s.complete(tb, 1)
		}
	}
	s.complete(tb, min(n, inQueue-1))
}

// complete waits for n completions.
func (s *stream) complete(tb testing.TB, n int) {
	for n > 0 {
		k, err := s.conn.QP().SendCQ().Wait(s.ctx, s.wcs[:n])
		if err != nil {
			tb.Error(err)
			return
		}
		for _, wc := range s.wcs[:k] {
			if err := wc.Err(); err != nil {
				tb.Error(err)
			}
		}
		n -= k
	}
}

func counter(tb testing.TB, d *verbs.Device, name string) uint64 {
	all, err := d.QueryCounters(1)
	if err != nil {
		tb.Fatal(err)
	}
	return all[name]
}

// TestChangingMemory moves memory that the program changes meanwhile. The ICRC of each packet must be that of the bytes that
// were sent.
func TestChangingMemory(t *testing.T) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		s := newStream(t, x, y, op, partSize)
		from := s.mr.Bytes()
		if op == verbs.OpRDMARead {
			from = s.remote.Bytes()
		}
		stop := make(chan struct{})
		var changing sync.WaitGroup
		changing.Go(func() {
			for v := byte(0); ; v++ {
				select {
				case <-stop:
					return
				default:
				}
				for i := 0; i < len(from); i += 61 {
					from[i] = v
				}
			}
		})
		s.parts(t, partSize, 200)
		close(stop)
		changing.Wait()
	}
	for _, d := range []*verbs.Device{x, y} {
		if n := counter(t, d, "link_drop_icrc"); n != 0 {
			t.Errorf("%d packets with a bad ICRC", n)
		}
	}
}
