//go:build cabi

package cabi

import (
	"flag"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

var soak = flag.Int("soak", 2, "runs of TestSoak")

// TestSoak runs ibv_rc_pingpong again and again on a host whose processors are busy: two endless
// loops per processor. Each run must end, with status 0 and a result at both ends.
func TestSoak(t *testing.T) {
	for range 2 * runtime.NumCPU() {
		loop := exec.Command("/bin/sh", "-c", "while :; do :; done")
		loop.SysProcAttr = asOrdinary()
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = loop.Process.Kill()
			_ = loop.Wait()
		})
	}
	var took []time.Duration
	for i := range *soak {
		p := pingpong{"rc", []string{"-c", "-e -c"}[i%2]}
		t.Run("", func(t *testing.T) {
			begun := time.Now()
			port := freePort(t)
			server := p.c(t, port)
			server.listens(port)
			client := p.c(t, port, "127.0.0.1")
			client.succeeds()
			server.succeeds()
			p.check(t, client)
			p.check(t, server)
			took = append(took, time.Since(begun))
		})
	}
	if len(took) > 0 {
		slices.Sort(took)
		t.Logf("%d runs; the median took %v, the longest %v", len(took), took[len(took)/2], took[len(took)-1])
	}
}
