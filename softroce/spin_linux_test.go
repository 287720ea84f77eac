package softroce_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkSpinOnOneProcessor lets both ends poll in a process that has one processor. Without yields each end waits until the
// other's time slice of some milliseconds is over.
func BenchmarkSpinOnOneProcessor(b *testing.B) {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		b.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	bind(b, &one)
	defer bind(b, &all)
	e := newEnds(b)
	e.ping.spin, e.pong.spin = time.Minute, time.Minute
	e.all.Go(func() { e.pong.echo(e.ctx) })
	for b.Loop() {
		if err := e.ping.trip(e.ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// bind lets all threads of this process run on some processors.
func bind(t testing.TB, on *unix.CPUSet) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(id, on); err != nil && err != unix.ESRCH {
			t.Error(err)
		}
	}
}
