//go:build !rdma

package e2e

import (
	"strings"
	"testing"
)

// TestSoft0ListensOnLoopback: all clients of soft0 are on the same host.
func TestSoft0ListensOnLoopback(t *testing.T) {
	noLeak(t)
	s := serve(t)
	if got := s.event("server.listening").str("address"); !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("it listens on %s", got)
	}
	s.stops()
	if r := s.find("server.unauthenticated"); r != nil {
		t.Errorf("a warning on loopback: %v", r)
	}
}
