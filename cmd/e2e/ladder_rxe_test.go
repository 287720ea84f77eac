//go:build rdma && rxe

package e2e

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLadderSoftWithRxe draws ladders between the software device and the kernel's. See runs.
func TestLadderSoftWithRxe(t *testing.T) {
	noLeak(t)
	for direction, side := range sides {
		for number, job := range ladderJobs {
			if !runs(number, direction) {
				continue
			}
			t.Run(side.name+"/"+job[1], func(t *testing.T) {
				s := startBy(t, side.serverBy, "rdma_server", "--json", "--once", side.serverDevice, "0")
				_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "record")
				c := startBy(t, side.clientBy, "rdma_client", slices.Concat(job, []string{"--ladder", "--record", file, side.to[0], side.clientDevice, port})...)
				c.succeeds()
				s.succeeds()
				checkLadder(t, c, file)
				if job[1] == "write-read" {
					t.Logf("%s:\n%s", side.name, strings.Join(c.lines, "\n"))
				}
			})
		}
	}
}
