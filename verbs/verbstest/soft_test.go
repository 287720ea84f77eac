//go:build !rdma

// The table on the software device, on any machine. It cannot run next to rdma_rxe, which owns
// UDP port 4791 in the whole network namespace.

package verbstest

import (
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	_ "github.com/rawverbs/rawverbs/softroce"
)

func TestSoftware(t *testing.T) { Run(t, "soft0", Quirks(t, "soft0")) }

// TestReports checks that Fatalf ends a case and runs its cleanups, and that a panic and an
// unsupported verb are reported as faults.
func TestReports(t *testing.T) {
	undone := 0
	for name, c := range map[string]struct {
		run         func(*Env)
		want        string
		unsupported bool
	}{
		"Fatalf":      {func(e *Env) { e.Fatalf("the end"); e.Errorf("not reached") }, "the end", false},
		"panic":       {func(*Env) { panic("oh") }, "panic: oh", false},
		"unsupported": {func(e *Env) { e.ok(syscall.EOPNOTSUPP, "asking") }, "asking: operation not supported", true},
	} {
		o := Case{Run: func(e *Env) {
			e.Cleanup(func() error { undone++; return nil })
			c.run(e)
		}}.execute(t.Context(), "soft0", testkit.Limit, false)
		if len(o.findings) != 1 || !strings.HasPrefix(o.findings[0], c.want) || o.unsupported != c.unsupported {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if undone != 3 {
		t.Errorf("%d of 3 cleanups were called", undone)
	}
}
