// The device's speed: `make bench-soft`. Each benchmark alternates between two measurements in
// one run, because machines are noisy. Only the ratios matter.

package softroce_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	kib     = 1 << 10
	mib     = 1 << 20
	all     = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	inQueue = 4 // messages in flight: enough to keep a link busy
)

// stream is a queue pair that moves messages between two regions, one at each end.
type stream struct {
	ctx    context.Context
	conn   *rc.Conn
	mr     *verbs.MR
	remote *verbs.MR
	wrs    []verbs.SendWR
	wcs    []verbs.WC
}

func newStream(tb testing.TB, a, b *verbs.Device, op verbs.Opcode, size int) *stream {
	c, s := connect(tb, a, b, rc.Config{Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}})
	return streamTo(tb, c, s, op, size)
}

// newPatientStream returns a stream whose requests are never sent again, so that a lost wake-up shows.
func newPatientStream(t *testing.T, a, b *verbs.Device, op verbs.Opcode, size int) *stream {
	timing := rc.DefaultTiming()
	timing.Timeout, timing.Forever = 0, true
	c, s := connect(t, a, b, rc.Config{Timing: &timing})
	return streamTo(t, c, s, op, size)
}

// streamTo returns a stream from c to s, the other end of its connection.
func streamTo(tb testing.TB, c, s *rc.Conn, op verbs.Opcode, size int) *stream {
	st := &stream{ctx: limited(tb), conn: c, wcs: make([]verbs.WC, c.QP().Cap().MaxSendWR)}
	var err error
	if st.mr, err = c.AllocMR("stream", size, all); err != nil {
		tb.Fatal(err)
	}
	if st.remote, err = s.AllocMR("stream", size, all); err != nil {
		tb.Fatal(err)
	}
	st.wrs = []verbs.SendWR{{Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{st.mr.SGE(0, size)},
		RemoteAddr: st.remote.Addr(), RKey: st.remote.RKey()}}
	return st
}

// run moves n messages, inQueue at a time.
func (s *stream) run(tb testing.TB, n int) {
	posted, done := 0, 0
	for done < n {
		for posted < n && posted-done < inQueue {
			if err := s.conn.QP().PostSend(s.wrs); err != nil {
				tb.Fatal(err)
			}
			posted++
		}
		k, err := s.conn.QP().SendCQ().Wait(s.ctx, s.wcs)
		if err != nil {
			tb.Fatal(err)
		}
		for _, wc := range s.wcs[:k] {
			if err := wc.Err(); err != nil {
				tb.Fatal(err)
			}
		}
		done += k
	}
}

// tcpSink returns a TCP connection over loopback. Its other end reads everything.
func tcpSink(tb testing.TB) net.Conn {
	return tcpTo(tb, func(c net.Conn) {
		for buf := make([]byte, 256<<10); ; {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	})
}

// tcpTo returns a TCP connection over loopback. serve runs at its other end, which closes when serve returns.
func tcpTo(tb testing.TB, serve func(net.Conn)) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		l.Close() // not before: that would reset the connection
		if err != nil {
			return
		}
		defer c.Close()
		serve(c)
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		l.Close()
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// against times two functions in turns. It reports the rates of both and the ratio of a to b. The
// ratio of the processor times (cpu-ratio) depends less on what else the host does.
func against(b *testing.B, names [2]string, unit string, perRound float64, rounds [2]func()) {
	var took, worked [2]time.Duration
	for b.Loop() {
		for i, round := range rounds {
			begin, work := time.Now(), processorTime(b)
			round()
			took[i] += time.Since(begin)
			worked[i] += processorTime(b) - work
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range names {
		b.ReportMetric(perRound*float64(b.N)/took[i].Seconds(), name+"-"+unit)
	}
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
	b.ReportMetric(worked[1].Seconds()/worked[0].Seconds(), "cpu-ratio")
}

func BenchmarkBandwidth(b *testing.B) {
	const messages = 64
	gb := float64(messages*mib) / 1e9
	x, y := openSoft(b, "soft0"), openSoft(b, "soft0")
	write, read := newStream(b, x, y, verbs.OpRDMAWrite, mib), newStream(b, x, y, verbs.OpRDMARead, mib)
	tcp, chunk := tcpSink(b), make([]byte, 64<<10)
	overTCP := func() {
		for range messages * mib / len(chunk) {
			if _, err := tcp.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("WRITE/TCP", func(b *testing.B) {
		against(b, [2]string{"WRITE", "TCP"}, "GB/s", gb, [2]func(){func() { write.run(b, messages) }, overTCP})
	})
	b.Run("READ/TCP", func(b *testing.B) {
		against(b, [2]string{"READ", "TCP"}, "GB/s", gb, [2]func(){func() { read.run(b, messages) }, overTCP})
	})
	b.Run("READ/WRITE", func(b *testing.B) {
		against(b, [2]string{"READ", "WRITE"}, "GB/s", gb, [2]func(){func() { read.run(b, messages) }, func() { write.run(b, messages) }})
	})
}

// BenchmarkManyQPs compares the throughput of 64 KiB WRITEs over 1000 queue pairs of one device
// with that over 4. Both use the same amount of memory, so that caches do not favour the few,
// and keep the same number of messages in flight.
func BenchmarkManyQPs(b *testing.B) {
	const size, slots, perRound = 64 << 10, 1000, 2000
	x, y := openSoft(b, "soft0"), openSoft(b, "soft0")
	group := func(n int) func() {
		streams := make([]*stream, n)
		for i := range streams {
			streams[i] = newStream(b, x, y, verbs.OpRDMAWrite, size*slots/n)
		}
		return func() { writeInTurn(b, streams, size, perRound) }
	}
	many, few := group(1000), group(4)
	against(b, [2]string{"1000-QPs", "4-QPs"}, "GB/s", float64(size*perRound)/1e9, [2]func(){many, few})
}

// writeInTurn posts n WRITEs of size bytes, 16 in flight. Each goes to the next stream and to
// the next part of that stream's region.
func writeInTurn(tb testing.TB, streams []*stream, size, n int) {
	const inFlight = 16
	for i := range n + inFlight {
		if i >= inFlight {
			s := streams[(i-inFlight)%len(streams)]
			wc, err := s.conn.QP().SendCQ().Wait(context.Background(), s.wcs[:1])
			if err != nil || wc != 1 || s.wcs[0].Err() != nil {
				tb.Fatal(wc, err, s.wcs[0].Err())
			}
		}
		if i < n {
			s := streams[i%len(streams)]
			off := i / len(streams) * size % s.mr.Len()
			s.wrs[0].SGL[0] = s.mr.SGE(off, size)
			s.wrs[0].RemoteAddr = s.remote.Addr() + uint64(off)
			if err := s.conn.QP().PostSend(s.wrs); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// newIdle returns two devices with connected queue pairs that have nothing to do any more.
func newIdle(tb testing.TB) {
	x, y := openSoft(tb, "soft0"), openSoft(tb, "soft0")
	for range 10 {
		newStream(tb, x, y, verbs.OpRDMAWrite, 4096).run(tb, 4)
	}
	for _, d := range []*verbs.Device{x, y} {
		testkit.Until(tb, "device without timers whose port's goroutine waits", func() bool {
			return !softroce.TimerSet(d) && softroce.Receiving(d)
		}, func() string {
			return fmt.Sprintf("timer: %v, receiving: %v", softroce.TimerSet(d), softroce.Receiving(d))
		})
	}
}

// BenchmarkIdle reports the processor time of each second in which two devices have nothing to do.
func BenchmarkIdle(b *testing.B) {
	newIdle(b)
	var spent, idle time.Duration
	for b.Loop() {
		began, before := time.Now(), processorTime(b)
		time.Sleep(100 * time.Millisecond)
		spent += processorTime(b) - before
		idle += time.Since(began)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(spent.Seconds()*1000/idle.Seconds(), "ms/s")
}

func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
