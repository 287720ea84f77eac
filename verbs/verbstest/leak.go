// Creating and freeing thousands of objects of each kind. Afterwards the process must have as
// many files, threads and bytes as before.

package verbstest

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// Leaks creates and frees count objects of each kind on a device. It compares what the process
// holds from round to round.
func Leaks(t *testing.T, device string, count int) {
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	e := &Env{Dev: dev, Ctx: t.Context()}
	defer func() {
		for i := len(e.undo) - 1; i >= 0; i-- {
			if err := e.undo[i](); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, kind := range e.kinds(device) {
		t.Run(kind.name, func(t *testing.T) {
			turn := func(n int) {
				for range n {
					object, err := kind.make()
					if err != nil {
						t.Fatal(err)
					}
					if err := object.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			// A leak grows in every round; nothing else does. Go's heap is exact after a
			// collection, except for goroutines that Close has ended but that have not exited
			// yet; Go keeps their stacks. The resident memory, which includes C's, varies by
			// megabytes, and keeps growing for a long time under the race detector. The first
			// round is a warm-up.
			const rounds, most = 5, 30
			limit, heapLimit := max(50*count/rounds, 64<<10), max(8*count/rounds, 4<<10)
			var was, is holding
			grown, heapGrown, took := math.MaxInt, math.MaxInt, 0
			for ; took < rounds || took < most && (grown > limit || heapGrown > heapLimit); took++ {
				turn(count / rounds)
				was, is = is, held(t)
				if took == 0 {
					continue
				}
				grown = min(grown, is.resident-was.resident)
				heapGrown = min(heapGrown, is.heap-was.heap)
				if is.files > was.files {
					t.Errorf("after creating and freeing %d objects: %v before, %v after", count/rounds, was, is)
				}
			}
			t.Logf("%d objects; the process holds %v", took*count/rounds, is)
			if grown > limit {
				t.Errorf("each object leaks %d bytes of memory", grown/(count/rounds))
			}
			if heapGrown > heapLimit {
				t.Errorf("each object leaks %d bytes of Go's heap", heapGrown/(count/rounds))
			}
			if is.threads > 20 {
				t.Errorf("%d threads at the end, want at most 20", is.threads)
			}
		})
	}
}

// kind is a kind of object and how to create it.
type kind struct {
	name string
	make func() (io.Closer, error)
}

// kinds returns all kinds. It creates the other objects that they need.
func (e *Env) kinds(device string) []kind {
	pd, cq, slice := e.pd(), e.cq(defaultDepth), make([]byte, 4096)
	qp := func(typ verbs.QPType) func() (io.Closer, error) {
		return func() (io.Closer, error) {
			return pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
		}
	}
	return []kind{
		{"device", func() (io.Closer, error) { return verbs.Open(device) }},
		{"protection domain", func() (io.Closer, error) { return e.Dev.AllocPD() }},
		{"region allocated by AllocMR", func() (io.Closer, error) { return pd.AllocMR(4096, verbs.AccessLocalWrite) }},
		{"region of a slice", func() (io.Closer, error) { return pd.RegMR(slice, verbs.AccessLocalWrite) }},
		{"completion channel", func() (io.Closer, error) { return e.Dev.CreateCompChannel() }},
		{"CQ", func() (io.Closer, error) { return e.Dev.CreateCQ(verbs.CQInit{Depth: defaultDepth}) }},
		{"extended CQ", func() (io.Closer, error) {
			return e.Dev.CreateCQ(verbs.CQInit{Depth: defaultDepth, Ex: verbs.WCExStandard})
		}},
		{"SRQ", func() (io.Closer, error) { return pd.CreateSRQ(verbs.SRQInit{MaxWR: defaultDepth, MaxSGE: 1}) }},
		{"RC queue pair", qp(verbs.RC)},
		{"UC queue pair", qp(verbs.UC)},
		{"UD queue pair", qp(verbs.UD)},
		{"memory window of type 1", func() (io.Closer, error) { return pd.AllocMW(verbs.MWType1) }},
		{"memory window of type 2", func() (io.Closer, error) { return pd.AllocMW(verbs.MWType2) }},
		{"address handle", func() (io.Closer, error) { return pd.CreateAH(e.route()) }},
	}
}

// holding is what a process holds.
type holding struct {
	files, threads int
	heap           int // Go's, in bytes
	resident       int // of the whole process, in bytes
}

func (h holding) String() string {
	return fmt.Sprintf("%d files, %d threads, %d KiB resident", h.files, h.threads, h.resident>>10)
}

func held(t *testing.T) holding {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	h := holding{files: count("/proc/self/fd"), threads: count("/proc/self/task"), heap: int(stats.HeapAlloc)}
	// smaps_rollup has the current resident size; statm lags behind by some pages per thread.
	status, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "Private_Dirty: %d kB", &h.resident); err == nil {
			h.resident <<= 10
			return h
		}
	}
	t.Fatal("/proc/self/smaps_rollup has no Private_Dirty")
	return h
}
