package softroce_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSpinYields lets both ends poll in a process that has one processor. Without yields each end waits until the
// other's time slice of some milliseconds is over.
func TestSpinYields(t *testing.T) {
	e := newEnds(t)
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	bind(t, &one)
	defer bind(t, &all)
	e.ping.spin, e.pong.spin = time.Minute, time.Minute
	e.all.Go(func() { e.pong.echo(e.ctx) })
	const trips, limit = 1000, 150 * time.Millisecond
	var took time.Duration
	for range 5 { // the machine may be busy
		began := time.Now()
		for i := range trips {
			if err := e.ping.trip(e.ctx); err != nil {
				t.Fatal("round trip", i, err)
			}
		}
		if took = time.Since(began); took < limit {
			return
		}
	}
	t.Errorf("%d round trips take %v, want less than %v", trips, took, limit)
}

// bind lets all threads of this process run on some processors.
func bind(t *testing.T, on *unix.CPUSet) {
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
