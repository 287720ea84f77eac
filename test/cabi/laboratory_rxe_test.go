//go:build cabi && rxe

package cabi

import "testing"

// TestRealSessions runs sessions' programs, in C and in Go, on rxe0.
func TestRealSessions(t *testing.T) {
	for _, s := range chosen(t, inBoth...) {
		for language, build := range map[string]func(*testing.T) string{"C": s.inC, "Go": s.inGo} {
			t.Run(s.name+"/"+language, func(t *testing.T) {
				p := start(t, build(t), "rxe0")
				p.succeeds()
				p.has(t, asInTheLaboratory)
			})
		}
	}
}

// TestRealSQD runs the lesson sqd on rxe0. A send that is posted in SQD does not complete there.
// docs/laboratory.md says so: if this test fails because rdma_rxe has changed, change that page too. On a
// busy host the send before it does not complete either, if the move to SQD comes first.
func TestRealSQD(t *testing.T) {
	for _, s := range chosen(t, "lesson-sqd") {
		p := start(t, s.inC(t), "rxe0")
		if status := p.status(limit); status != 1 {
			t.Errorf("status %d, want 1", status)
		}
		p.has(t, "client: no completion came", " results differ from the laboratory's")
	}
}
