//go:build linux && cgo

package ccall

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall/ccalltest"
)

func TestCallPassesArgumentsAndResult(t *testing.T) {
	n := uint64(41)
	if got := Call(ccalltest.Polynomial, 1, 2, 3, 4, unsafe.Pointer(&n)); got != 1+20+300-4000 || n != 42 {
		t.Errorf("got %d, and %d at p", got, n)
	}
}

// TestCallWithPartOfObject passes a field of an object whose other fields have pointers.
func TestCallWithPartOfObject(t *testing.T) {
	onHeap = &object{41, new(int)}
	if Call(ccalltest.Polynomial, 0, 0, 0, 0, unsafe.Pointer(&onHeap.n)); onHeap.n != 42 {
		t.Errorf("%d in the object", onHeap.n)
	}
}

type object struct {
	n    uint64
	more *int
}

var onHeap *object

func TestCallStaysOnThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	Call(ccalltest.SetErrno, uintptr(syscall.EIO), 0, 0, 0, nil)
	if got := syscall.Errno(Call(ccalltest.SetErrno, 0, 0, 0, 0, nil)); got != syscall.EIO {
		t.Errorf("errno was %d, want EIO", got)
	}
}

func TestCallAllocatesNothing(t *testing.T) {
	var n uint64
	if allocs := testing.AllocsPerRun(1000, func() { Call(ccalltest.Polynomial, 1, 2, 3, 4, unsafe.Pointer(&n)) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestCallDuringSignals calls from many goroutines while the garbage collector runs all
// the time and a CPU profile interrupts them.
func TestCallDuringSignals(t *testing.T) {
	runtime.SetCPUProfileRate(2000) // StartCPUProfile prints a complaint and uses this rate
	if err := pprof.StartCPUProfile(new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const calls = 300 // per goroutine
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := uintptr(i); n < uintptr(i)+calls; n++ {
				var at uint64
				if got := deep(200, func() int64 { return Call(ccalltest.Polynomial, n, n, n, 0, unsafe.Pointer(&at)) }); got != int64(111*n) || at != 1 {
					t.Errorf("got %d and %d for %d", got, at, n)
					return
				}
				if got := Call(ccalltest.Work, 20_000, n, 0, 0, nil); got != int64(n) {
					t.Errorf("got %d, want %d", got, n)
					return
				}
			}
		})
	}
	var over atomic.Bool
	var collector sync.WaitGroup
	collector.Go(func() {
		for !over.Load() {
			runtime.GC()
		}
	})
	all.Wait()
	over.Store(true)
	collector.Wait()
}

// deep calls f from a grown stack, which shrinks at the next garbage collection.
func deep(n int, f func() int64) int64 {
	var room [256]byte
	if n == 0 {
		return f()
	}
	room[n%len(room)] = 1
	return deep(n-1, f) + int64(room[0])*0
}

// TestVariable checks the environment variable in a child process, which runs this test.
func TestVariable(t *testing.T) {
	const child = "CCALL_TEST_CHILD"
	if os.Getenv(child) != "" {
		n := uint64(41)
		t.Logf("direct: %v, result %d", Direct, Call(ccalltest.Polynomial, 1, 2, 3, 4, unsafe.Pointer(&n)))
		return
	}
	for value, direct := range map[string]bool{"": tried, "0": tried, "1": false, "yes": false} {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1", Variable+"="+value)
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("direct: %v, result %d", direct, 1+20+300-4000); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s=%q: %v; want %q:\n%s", Variable, value, err, want, out)
		}
	}
}

// TestCrashReport checks that a fault or SIGQUIT during a direct call prints the stack of
// the calling goroutine. The child process runs this test.
func TestCrashReport(t *testing.T) {
	const name = "CCALL_TEST_ENDS_BY"
	ends := map[string]struct {
		end    func()
		prints string
	}{
		"fault":      {func() { Call(ccalltest.Fault, 8, 0, 0, 0, nil) }, "SIGSEGV"},
		"fault deep": {func() { Call(ccalltest.FaultDeep, 8, 0, 0, 0, nil) }, "SIGSEGV"},
		"quit": {func() {
			runtime.LockOSThread() // the signal prints the stack of this thread
			Call(ccalltest.Raise, uintptr(syscall.SIGQUIT), 0, 0, 0, nil)
			Call(ccalltest.Work, uintptr(time.Second), 0, 0, 0, nil)
		}, "SIGQUIT"},
	}
	if how, ok := ends[os.Getenv(name)]; ok {
		defer func() {
			_ = recover() // must not succeed: C code could hold locks
			t.Log("survived")
		}()
		how.end()
		return
	}
	for how, want := range ends {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), name+"="+how, "GOMAXPROCS=2", "ASAN_OPTIONS=handle_segv=0") // the Go runtime must report the fault
		out, err := cmd.CombinedOutput()
		for _, text := range []string{want.prints, "ccall.Call(", t.Name(), "testing.(*M).Run"} {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: %q is not printed", how, text)
			}
		}
		if err == nil || strings.Contains(string(out), "survived") || t.Failed() {
			t.Errorf("%s: %v:\n%s", how, err, out)
		}
	}
}
