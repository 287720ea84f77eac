package rnet

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRestLeaves: bytes that wait for a whole message leave although the program does nothing more with
// this end, each time that it has paused.
func TestRestLeaves(t *testing.T) {
	a, b := testPair(t, Config{})
	b.SetReadDeadline(time.Now().Add(10 * time.Second))
	r := rand.New(rand.NewPCG(1, 1))
	held := 0
	for range 100 {
		n := 1 + r.IntN(defaultRing/2) // the peer has told that so much is free again
		for left := n; left > 0; {
			k := min(1+r.IntN(200<<10), left)
			if _, err := a.Write(make([]byte, k)); err != nil {
				t.Fatal(err)
			}
			left -= k
		}
		a.mu.Lock()
		if a.flow.posted < a.flow.written {
			held++
		}
		a.mu.Unlock()
		if m, err := io.CopyN(io.Discard, b, int64(n)); err != nil {
			t.Fatalf("%d of %d bytes, %v: %+v", m, n, err, a.Stats())
		}
	}
	if held == 0 {
		t.Error("nothing waited for a whole message, so nothing was tested")
	}
}
