//go:build !rdma

// The table on the software device, on any machine; not together with rdma_rxe,
// which takes UDP port 4791 from the whole network namespace.

package verbstest

import (
	"strings"
	"syscall"
	"testing"

	_ "github.com/rawverbs/rawverbs/softroce"
)

func TestSoftware(t *testing.T) { Run(t, "soft0", Quirks(t, "soft0")) }

// TestReports: Fatalf ends a case and what it left is still undone; a panic and
// an unsupported verb are reports too.
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
		}}.execute(t.Context(), "soft0")
		if len(o.findings) != 1 || !strings.HasPrefix(o.findings[0], c.want) || o.unsupported != c.unsupported {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if undone != 3 {
		t.Errorf("%d of 3 were undone", undone)
	}
}
