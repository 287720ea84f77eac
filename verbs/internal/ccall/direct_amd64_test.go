//go:build linux && cgo && amd64 && !race && !msan && !asan && !cgocalls

package ccall

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall/ccalltest"
)

func TestCallHasItsStack(t *testing.T) {
	Call(ccalltest.UseStack, stackSize-2*above, 0, 0, 0, nil)
}

// TestStacksAreGivenBack has many calls at once, each of which needs a stack.
func TestStacksAreGivenBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(32))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() { Call(ccalltest.Work, uintptr(50*time.Millisecond), 0, 0, 0, nil) })
	}
	all.Wait()
	most := mappings(t)
	for range 100 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		if mappings(t) <= most-16 {
			return
		}
	}
	t.Errorf("%d mappings after 32 calls at once, and still %d when nothing is called", most, mappings(t))
}

// mappings is how many pieces of memory the process has.
func mappings(t *testing.T) int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), "\n")
}

// What ends a program is tried in one that does nothing else: this test, started by
// itself.
func TestWhatEndsTheProgram(t *testing.T) {
	const name = "CCALL_TEST_ENDS_BY"
	end := map[string]func(){
		"a fault":  func() { Call(ccalltest.Crash, 8, 0, 0, 0, nil) },
		"no stack": func() { Call(ccalltest.UseStack, stackSize+2048, 0, 0, 0, nil) },
	}
	if f := end[os.Getenv(name)]; f != nil {
		defer func() {
			_ = recover() // C's locks would be left held
			t.Log("survived")
		}()
		f()
		return
	}
	for how := range end {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), name+"="+how)
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Contains(string(out), "survived") {
			t.Errorf("%s: %v:\n%s", how, err, out)
		}
		if how == "a fault" && !strings.Contains(string(out), "ccall.callOn(") {
			t.Errorf("%s: where it was is not told: %v:\n%s", how, err, out)
		}
	}
}
