package metrics

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/rawverbs/rawverbs/internal/run"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestIdleClients checks that connections that are kept open do not keep a probe out.
func TestIdleClients(t *testing.T) {
	metrics, err := Listen(t.Context(), "127.0.0.1:0", new(run.Counts), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := metrics.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 * maxConns {
		conn, err := net.Dial("tcp", metrics.http.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	s := served{address: metrics.http.Addr}
	answer := s.ask(t, []byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), testkit.Deadline())
	if !bytes.Contains(answer, []byte("starting")) {
		t.Errorf("%d idle clients, and a probe gets %q", 2*maxConns, answer)
	}
}
