package e2e

import "testing"

// TestDeathAtEachStep ends a client at each step, with a reset, as when its host crashes, or
// with a close, as when it is killed. The server notices that, and not only at its --timeout.
func TestDeathAtEachStep(t *testing.T) {
	noLeak(t)
	s := serve(t, never)
	for steps := range len(fakeSteps) + 1 {
		name := "connected"
		if steps > 0 {
			name = fakeSteps[steps-1].name
		}
		for _, how := range []string{"close", "reset"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				nc := dialRaw(t, s)
				peer := nc.LocalAddr().String()
				fake := fakeClient(t, nc, steps)
				if how == "reset" {
					nc.SetLinger(0)
				}
				fake.Close()
				s.event("client.failed", "peer", peer, "error", "the connection")
			})
		}
	}
	s.stillServes(t)
	s.stops()
}
