package rnet

import (
	"io"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestNoAllocation: echoes, streams with and without a waiting reader, and deadlines that do not pass
// allocate nothing in the steady state.
func TestNoAllocation(t *testing.T) {
	const calls = 100
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
			echo := func() {
				if err := echoes(a, buf, 1); err != nil {
					t.Fatal(err)
				}
			}
			if n := testkit.Allocations(t, calls, echo); n > 0 {
				t.Errorf("%.2f allocations per echo", n)
			}
			n := testkit.Allocations(t, calls, func() {
				_ = a.SetReadDeadline(testkit.Deadline())
				echo()
			})
			if n > 0 {
				t.Errorf("%.2f allocations per echo with a deadline", n)
			}
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
			n := testkit.Allocations(t, calls, func() {
				if _, err := a.Write(buf); err != nil {
					t.Fatal(err)
				}
			})
			if n > 0 {
				t.Errorf("%.2f allocations per write", n)
			}
		})
	}
}
