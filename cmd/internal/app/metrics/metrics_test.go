package metrics

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
	"github.com/rawverbs/rawverbs/internal/secure"
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

// TestHealth checks that the health check names all reasons why no client can connect.
func TestHealth(t *testing.T) {
	day := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	expired := secure.Validity{From: day, Until: day.AddDate(0, 0, 1)}
	gone := errors.New("no interface has the address")
	const certificate = "the certificate is valid only from 2026-11-27 08:00 UTC to 2026-11-28 08:00 UTC"
	for want, s := range map[string]run.Snapshot{
		"200 serving\n":  {State: run.Serving, TLS: expired},
		"503 stopping\n": {State: run.Stopping},
		"503 serving, but no client can connect: " + certificate + "\n":                           {State: run.Serving, TLS: expired, TLSInvalid: true},
		"503 serving, but no client can connect: " + certificate + "; and " + gone.Error() + "\n": {State: run.Serving, TLS: expired, TLSInvalid: true, Down: gone},
	} {
		w := httptest.NewRecorder()
		health(w, s)
		if got := fmt.Sprint(w.Code, " ", w.Body); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
