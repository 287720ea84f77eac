package e2e

import (
	"slices"
	"testing"
)

// TestMixed runs many clients with different jobs at once on one server, and checks both ends.
func TestMixed(t *testing.T) {
	noLeak(t)
	all := exercises(t)
	var flags []string
	for _, e := range all {
		flags = append(flags, e.server...) // the last of two different values counts
	}
	s := serve(t, append(flags, never)...)
	type run struct {
		exercise
		c *process
	}
	if emulated {
		all = all[:sideBySide]
	}
	total := 0
	for some := range slices.Chunk(all, sideBySide) {
		var runs []run
		for _, e := range some {
			runs = append(runs, run{e, s.client(t, append(e.client, never)...)})
		}
		for _, r := range runs {
			r.c.succeeds()
			if r.crowd == nil {
				r.crowd = r.clientEvents
			}
			r.c.logged(t, r.crowd)
		}
		total += len(runs)
	}
	s.held.expect(t, s)
	s.stops()
	if failed := s.all("client.failed"); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	if got := len(s.all("run.done")); got != total {
		t.Errorf("the server did %d jobs, want %d", got, total)
	}
}
