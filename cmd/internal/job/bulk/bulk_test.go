package bulk

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

func TestBulkDataIsFoundRight(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 100, 4096} {
		mine, theirs := newData(42, n), newData(42, n)
		for chunk := range int64(5) {
			buf := make([]byte, n)
			mine.fill(chunk, buf)
			if err := theirs.check(chunk, buf); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		if mine.summary() != theirs.summary() {
			t.Errorf("%d bytes: %s at one end, %s at the other", n, mine.summary(), theirs.summary())
		}
	}
}

func TestEveryWrongByteIsFound(t *testing.T) {
	const n = 27
	d := newData(7, n)
	buf := make([]byte, n)
	d.fill(3, buf)
	for at := range buf {
		bad := bytes.Clone(buf)
		bad[at] ^= 0x80
		bad[n-1] ^= 1 // only the first wrong byte is reported
		var wrong *mismatch
		err := d.check(3, bad)
		if !errors.As(err, &wrong) || wrong.Chunk != 3 || wrong.Offset != 3*n+int64(at) || wrong.Got != bad[at] || wrong.Want != buf[at] {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// TestChunksDiffer checks that no chunk equals another chunk, of this run or of another one.
func TestChunksDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, seed := range []uint64{0, 1, golden} {
		for chunk := range int64(1000) {
			d := newData(seed, 8)
			buf := make([]byte, 8)
			d.fill(chunk, buf)
			if seen[string(buf)] {
				t.Fatalf("seed %#x: chunk %d equals an earlier chunk", seed, chunk)
			}
			seen[string(buf)] = true
		}
	}
}

func TestTheSumIsOfTheOrder(t *testing.T) {
	a, b := newData(1, 8), newData(1, 8)
	buf := make([]byte, 8)
	for _, chunk := range []int64{0, 1} {
		a.fill(chunk, buf)
		b.fill(1-chunk, buf)
	}
	if a.summary() == b.summary() {
		t.Error("the order of the chunks does not matter to the sum")
	}
}

// plans calls do with plans of many shapes.
func plans(do func(plan)) {
	for _, total := range []int64{1, 10, 99, 1000} {
		for _, chunk := range []int{1, 3, 10, 64} {
			for _, outstanding := range []int{1, 2, 5, 16} {
				for _, qps := range []int{1, 2, 3, 64} {
					for signalEvery := 1; signalEvery <= outstanding; signalEvery++ {
						if int64(chunk) <= total {
							do(plan{Chunked: kit.Chunked{Total: total, Chunk: chunk}, outstanding: outstanding, qps: qps, signalEvery: signalEvery})
						}
					}
				}
			}
		}
	}
}

// TestPlans checks what flow.go assumes: each slot belongs to one queue pair, and each queue
// pair has a limited number of slots; each queue pair's last request is signaled, and one of
// each window of outstanding requests; few credits are in flight.
func TestPlans(t *testing.T) {
	plans(func(p plan) {
		bytes, slots := int64(0), make([]int, p.qps)
		for s := range p.slots() {
			slots[p.qp(int64(s))]++
		}
		for q, n := range slots {
			if n > p.outstanding {
				t.Errorf("%+v: queue pair %d has %d slots", p, q, n)
			}
		}
		silent := make([]int, p.qps)
		for i := range p.Chunks() {
			bytes += int64(p.Length(i))
			q := p.qp(i)
			if p.qp(int64(p.slot(i))) != q {
				t.Errorf("%+v: chunk %d of queue pair %d has a slot of another queue pair", p, i, q)
			}
			if silent[q]++; p.signaled(i) {
				silent[q] = 0
			}
			if silent[q] >= p.outstanding {
				t.Errorf("%+v: %d requests without a signaled one", p, silent[q])
			}
		}
		for q, n := range silent {
			if n != 0 {
				t.Errorf("%+v: the last %d requests of queue pair %d are silent", p, n, q)
			}
		}
		if bytes != p.Total {
			t.Errorf("%+v: %d bytes", p, bytes)
		}
		if credits := p.slots()/max(1, p.slots()/4) + 1; credits > maxCredits {
			t.Errorf("%+v: %d credits in flight, but %d receives", p, credits, maxCredits)
		}
	})
}

// TestCompletionsAddUp checks that a completion counts the bytes of all requests that it stands
// for.
func TestCompletionsAddUp(t *testing.T) {
	plans(func(p plan) {
		e := &endpoint{plan: p, completed: make([]int64, p.qps)}
		bytes := int64(0)
		for i := range p.Chunks() {
			if p.signaled(i) {
				bytes += e.complete(i)
			}
		}
		if bytes != p.Total {
			t.Errorf("%+v: %d bytes completed", p, bytes)
		}
	})
}

// meterRun runs a meter while move runs. It returns the rows and the log.
func meterRun(t *testing.T, move func(*meter)) (rows []string, log string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "rows"))
	if err != nil {
		t.Fatal(err)
	}
	name := file.Name()
	var out bytes.Buffer
	m := &meter{csv: file}
	_, stop := m.start(t.Context(), slog.New(trace.NewNarration(&out, slog.LevelInfo, 0)), 1<<20)
	move(m)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	m.report("a sum")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), out.String()
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, log := meterRun(t, func(m *meter) {
			for range 4 {
				time.Sleep(49 * time.Millisecond)
				m.waits(forAcknowledgement)
				m.add(1<<18, 3)
			}
			m.waits(forCredit)
			time.Sleep(450 * time.Millisecond)
			m.add(0, 1)
		})
		want := "seconds,bytes,mib_per_s,completions,stalls 0.100,524288,5.000,6,0 0.200,524288,5.000,6,0 0.300,0,0.000,0,0 0.400,0,0.000,0,0 0.500,0,0.000,0,0 0.600,0,0.000,0,0 0.646,0,0.000,1,1"
		if got := strings.Join(rows, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		for _, want := range []string{
			"nothing has completed for over 200ms  bytes=1048576 hint=all requests were acknowledged",
			"1.5 MiB/s", "completions=13 stalls=1",
			"nothing completed for over 200ms  stalls=1 stalled=450ms longest=450ms hint=all requests were acknowledged",
		} {
			if !strings.Contains(log, want) {
				t.Errorf("%q was not logged:\n%s", want, log)
			}
		}
		if n := strings.Count(log, "nothing has completed"); n != 1 {
			t.Errorf("one stall was logged %d times while it lasted", n)
		}
	})
}

func TestAMeterWithoutStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log := meterRun(t, func(m *meter) {
			for range 10 {
				time.Sleep(200 * time.Millisecond)
				m.add(100, 1)
			}
		})
		if strings.Contains(log, "nothing") || !strings.Contains(log, "stalls=0") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// TestHints checks that each kind of stall has its own hint, with the values of the queue
// pair's attributes.
func TestHints(t *testing.T) {
	seen := map[string]bool{}
	for w := forNothing; w <= forData; w++ {
		seen[w.hint()] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d hints", len(seen))
	}
	for _, want := range []string{"67.1", "TIMEOUT 14", "640µs", "MIN_RNR_TIMER 12", "0 would be 655.36ms"} {
		if !strings.Contains(forAcknowledgement.hint(), want) {
			t.Errorf("the hint lacks %q: %s", want, forAcknowledgement.hint())
		}
	}
}

// TestAFullDiskEndsTheMoving checks that the job ends with the reason if a row cannot be
// written.
func TestAFullDiskEndsTheMoving(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{csv: full}
	moving, stop := m.start(t.Context(), slog.New(slog.DiscardHandler), 1)
	<-moving.Done()
	for _, err := range []error{context.Cause(moving), stop()} {
		if err == nil || !strings.Contains(err.Error(), "--csv: write /dev/full: no space left on device; try:") {
			t.Errorf("got %v", err)
		}
	}
}
