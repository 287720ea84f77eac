//go:build cabi

// Go programs that use libibverbs: their runtime and the device's are in one process, which Go does not support
// (golang/go#18976).

package cabi

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTwoGoRuntimes runs rdma_server and rdma_client.
func TestTwoGoRuntimes(t *testing.T) {
	for _, job := range []string{"send", "write-read", "bulk"} {
		t.Run(job, func(t *testing.T) {
			port := freePort(t)
			server := onSoft(t, ours("rdma_server"), "soft0", port)
			server.listens(port)
			client := onSoft(t, ours("rdma_client"), "--job="+job, "127.0.0.1", "soft0", port)
			client.succeeds()
			client.has(t, "device soft0 (libibverbs)")
		})
	}
}

// TestGoProgram runs a Go program that calls libibverbs by cgo, in the way that takes any errno for an error.
func TestGoProgram(t *testing.T) {
	program := filepath.Join(bin, "cgo")
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/cgo").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	runCases(t, program, "poll", "events", "goroutines", "profile", "signals", "panic", "unmapped")
}
