//go:build cabi && rxe

package cabi

import "testing"

// TestRealSessions runs sessions' programs, in C and in Go, on rxe0.
func TestRealSessions(t *testing.T) {
	long(t)
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

// TestRealSQD runs the lesson sqd on rxe0. SQD→RTS does not start the send queue there, so the send that was
// posted in SQD does not complete, as docs/laboratory.md says. On a busy host two things may be different: a task
// of rdma_rxe that runs late starts the queue, or the move to SQD overtakes the first send, which then waits too.
func TestRealSQD(t *testing.T) {
	long(t)
	for _, s := range chosen(t, "lesson-sqd") {
		p := start(t, s.inC(t), "rxe0")
		switch status := p.status(); status {
		case 0:
			p.has(t, asInTheLaboratory)
		case 1:
			p.has(t, "client: no completion came", " results differ from the laboratory's")
		default:
			t.Errorf("status %d, want 0 or 1", status)
		}
	}
}

// long skips the test with -short, which make test gives: it runs in the laboratory and on soft0 too.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short; try: make test-rxe WHOLE=1")
	}
}
