//go:build cabi

package cabi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// compile builds programs/NAME.c once, and returns the program.
func compile(t *testing.T, name string, flags ...string) string {
	t.Helper()
	program := filepath.Join(bin, strings.Join(append([]string{name}, flags...), ""))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program, filepath.Join("programs", name+".c")}, flags...)
	if text, err := exec.CommandContext(t.Context(), "cc", append(args, "-libverbs", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("cc %s.c: %v\n%s", name, err, text)
	}
	return program
}

// runCases runs a program once for each case, which is its argument. Many cases wait most of the time, so
// some run at once.
func runCases(t *testing.T, program string, cases ...string) {
	for _, c := range cases {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			p := onSoft(t, program, c)
			p.succeeds()
			if !strings.Contains(p.text(), "ok") {
				t.Errorf("%s did not come to its end", c)
			}
		})
	}
}

// TestFork forks programs that have the device open. In the child what it inherits answers EIO, and
// the device can be opened.
func TestFork(t *testing.T) {
	runCases(t, compile(t, "fork"), "inherited", "fresh", "generations", "exec", "busy")
}

// TestSignals sends signals to programs that have a Go runtime in them.
func TestSignals(t *testing.T) {
	program := compile(t, "signals")
	runCases(t, program, "before", "after", "flags", "on-stack", "alarm", "prof", "urgent", "waiting", "block-all", "identity", "masks")
	for c, want := range map[string]syscall.Signal{"death": syscall.SIGSEGV, "kill": syscall.SIGSEGV, "kill-bus": syscall.SIGBUS, "pipe": syscall.SIGPIPE} {
		t.Run(c, func(t *testing.T) {
			p := onSoft(t, program, c)
			p.status()
			if got := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != want {
				t.Errorf("status %v, want death by %v", p.cmd.ProcessState, want)
			}
		})
	}
}

// TestUnmappedBuffers unmaps registered memory before the device accesses it.
func TestUnmappedBuffers(t *testing.T) {
	runCases(t, compile(t, "unmap"), "poll", "event", "standby", "timers")
}

// TestHandles overwrites handles and contexts of objects, and posts lists and chains that are none.
func TestHandles(t *testing.T) {
	runCases(t, compile(t, "handles"), "destroys", "calls", "requests", "contexts", "imports", "chains")
}

// TestMemory registers memory that is not there or cannot be written, binds windows, and allocates buffers.
func TestMemory(t *testing.T) {
	runCases(t, compile(t, "memory", "-ldl"), "presence", "nothing", "windows", "buffers")
}

// TestThreads uses the device in many threads, some of which are cancelled or interrupted.
func TestThreads(t *testing.T) {
	runCases(t, compile(t, "threads"), "separate", "shared", "events", "cancel", "cancel-busy", "interrupt", "imports", "short-lived")
}

// TestChannels waits for completion events and asynchronous events in all ways.
func TestChannels(t *testing.T) {
	runCases(t, compile(t, "channels"), "nonblocking", "many", "replaced", "full", "acks", "async")
}

// TestContexts opens, closes and leaves open.
func TestContexts(t *testing.T) {
	runCases(t, compile(t, "contexts"), "left", "twice", "unload", "exit", "exit-in-handler", "exit-anywhere")
}

// TestClockSetBack ends a program whose wall clock is set back while the library waits for its last packets.
func TestClockSetBack(t *testing.T) { onSoft(t, compile(t, "clock", "-rdynamic")).succeeds() }

// TestRandomCalls calls the verbs with random arguments. TestAddressSanitizer does so too.
func TestRandomCalls(t *testing.T) {
	program := compile(t, "random")
	for seed := range 4 {
		p := onSoft(t, program, strconv.Itoa(100+seed), "100000")
		p.succeeds()
		var calls, refused int
		if _, err := fmt.Sscanf(p.text(), "ok: %d calls, %d refused", &calls, &refused); err != nil || refused < calls/10 || refused > calls*9/10 {
			t.Errorf("%d of %d calls were refused, %v", refused, calls, err)
		}
	}
}

// TestWalk makes, uses and destroys objects in four threads at once. TestThreadSanitizer and TestAddressSanitizer do so too.
func TestWalk(t *testing.T) {
	program := compile(t, "walk")
	for seed := range 4 {
		p := onSoft(t, program, strconv.Itoa(100+seed), "10000")
		p.succeeds()
		var made, destroyed, busy int
		if _, err := fmt.Sscanf(p.text(), "ok: %d made, %d destroyed, %d busy", &made, &destroyed, &busy); err != nil || destroyed < made/2 || busy == 0 {
			t.Errorf("%d objects made, %d destroyed, %d times refused, %v", made, destroyed, busy, err)
		}
	}
}

// TestFlush posts FLUSH with ibv_wr_flush.
func TestFlush(t *testing.T) { onSoft(t, compile(t, "flush")).succeeds() }

// TestNoCore lets the core be unable to run: with little address space (ulimit -v), with no queued
// signals (ulimit -i), without its file.
func TestNoCore(t *testing.T) {
	program := compile(t, "contexts")
	for c, remedy := range map[string]string{"memory": "try: ulimit -v unlimited", "pending": "try: ulimit -i 64", "no-core": "try: rawverbs run"} {
		t.Run(c, func(t *testing.T) {
			p := onSoft(t, program, c)
			p.succeeds()
			p.has(t, remedy, "ok")
		})
	}
}
