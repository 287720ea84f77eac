package e2e

import "testing"

// TestMixed runs many clients with all jobs at once on one server, and checks both ends.
func TestMixed(t *testing.T) {
	noLeak(t)
	all := exercises(t)
	var flags []string
	for _, e := range all {
		flags = append(flags, e.server...) // the last of two different values counts
	}
	s := serve(t, flags...)
	type run struct {
		exercise
		c *process
	}
	var runs []run
	for i := 0; len(runs) < sideBySide; i++ {
		if e := all[i%len(all)]; !e.once || i < len(all) {
			runs = append(runs, run{e, s.client(t, e.client...)})
		}
	}
	for _, r := range runs {
		r.c.succeeds()
		if r.crowd == nil {
			r.crowd = r.clientEvents
		}
		r.c.logged(t, r.crowd)
	}
	s.held.expect(t, s)
	s.stops()
	if failed := s.all("client.failed"); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	if got := len(s.all("run.done")); got != len(runs) {
		t.Errorf("the server did %d jobs, want %d", got, len(runs))
	}
}
