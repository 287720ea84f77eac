package rnet

import (
	"io"
	"runtime"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// allocations fails the test if Conns allocate something in each call of f, or in each report of a reader.
func allocations(t *testing.T, what string, f func() error) {
	t.Helper()
	const calls, few = 1000, 10 // the runtime allocates now and then for a goroutine that waits
	repeat := func(n int) {
		for range n {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
	}
	repeat(100) // the first calls may allocate
	before := testkit.Allocated("/rnet.(*Conn).")
	repeat(calls)
	if n := testkit.Allocated("/rnet.(*Conn).") - before; n > few {
		t.Errorf("%d allocations in %d %s", n, calls, what)
	}
}

// TestNoAllocation: echoes, streams with and without a waiting reader, and deadlines that do not pass
// allocate nothing in the steady state.
func TestNoAllocation(t *testing.T) {
	defer func(before int) { runtime.MemProfileRate = before }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1 // for testkit.Allocated
	for name, size := range map[string]int{"8 B": 8, "16 KiB": 16 << 10} {
		t.Run("echo "+name, func(t *testing.T) {
			a, b := testPair(t, Config{})
			go func() {
				buf := make([]byte, size)
				for {
					if _, err := io.ReadFull(b, buf); err != nil {
						return
					}
					if _, err := b.Write(buf); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, size)
			echo := func() error { return echoes(a, buf, 1) }
			allocations(t, "echoes", echo)
			allocations(t, "echoes with a deadline", func() error {
				_ = a.SetReadDeadline(testkit.Deadline())
				return echo()
			})
		})
	}
	for name, size := range map[string]int{"100 B": 100, "64 KiB": 64 << 10} {
		t.Run("stream "+name, func(t *testing.T) {
			a, b := testPair(t, Config{})
			go func() {
				buf := make([]byte, 64<<10)
				for {
					if _, err := b.Read(buf); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, size)
			allocations(t, "writes", func() error { _, err := a.Write(buf); return err })
		})
	}
}
