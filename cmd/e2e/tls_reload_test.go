package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/secure/credentials"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestHangup sends SIGHUP to servers. One without TLS ignores it. One with TLS reads its certificate again: a client in
// the middle of its job stays, and new clients get the new certificate.
func TestHangup(t *testing.T) {
	noLeak(t)
	plain := serve(t)
	plain.signal(unix.SIGHUP)
	plain.stillServes(t)
	plain.stops()

	server, client := certificates(t, ipv4)
	otherServer, otherClient := certificates(t, ipv4)
	s := serve(t, never, "--tls", server, "--listen", ipv4)
	busy := s.client(t, never, "--tls", client, "--job", "bulk", "--size", "1T")
	s.event("bulk.begun")
	for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Rename(filepath.Join(otherServer, file), filepath.Join(server, file)); err != nil {
			t.Fatal(err)
		}
	}
	s.signal(unix.SIGHUP)
	s.event("certificate.read")
	s.client(t, "--tls", otherClient).succeeds()
	s.client(t, "--tls", client).fails(1, "the server's certificate is not from the CA of this end")
	busy.signal(os.Interrupt)
	busy.fails(130, "stopped by SIGINT") // and by nothing else
	s.held.expect(t, s)
	s.stops()
}

// TestNotValid starts servers with a certificate that has expired and one of tomorrow. Their health checks fail until
// there is a valid one.
func TestNotValid(t *testing.T) {
	noLeak(t)
	for _, day := range []int{1, -2} {
		dir, from := filepath.Join(t.TempDir(), "lab"), time.Now().AddDate(0, 0, day)
		until := from.AddDate(0, 0, 1)
		if err := credentials.Make(dir, []string{ipv4}, []string{credentials.Client}, from, until); err != nil {
			t.Fatal(err)
		}
		s := serve(t, "--tls", filepath.Join(dir, credentials.Server), "--listen", ipv4, "--metrics", "127.0.0.1:0")
		s.event("certificate.expires", "level", "ERROR", "msg", "no client can connect: the certificate is valid only from", "msg", "try: new files in "+dir)
		address := "http://" + s.event("metrics.served").str("address")
		testkit.Until(t, "the server has started", func() bool {
			_, text := get(t, address+"/healthz")
			return !strings.HasPrefix(text, "starting")
		})
		if status, text := get(t, address+"/healthz"); status != http.StatusServiceUnavailable || !strings.HasPrefix(text, "serving, but no client can connect: the certificate is valid only from "+from.UTC().Format("2006-01-02")) {
			t.Errorf("health of a server whose certificate is valid from %v: %d %s", from, status, text)
		}
		_, text := get(t, address+"/metrics")
		for name, want := range map[string]int64{"before": from.Unix(), "after": until.Unix()} {
			if got := valueOf(t, text, "rawverbs_tls_not_"+name+"_seconds"); got != float64(want) {
				t.Errorf("the certificate is not valid %s %d, and the metric says %v", name, want, got)
			}
		}
		if day < 0 { // tomorrow's CA can sign nothing for today
			renewed(t, s, dir, address)
		}
		s.stops()
	}
}

// renewed gives a server new certificates.
func renewed(t *testing.T, s *server, dir, address string) {
	t.Helper()
	labTLS(t, "renew", dir)
	s.signal(unix.SIGHUP)
	s.event("certificate.read")
	if status, text := get(t, address+"/healthz"); status != http.StatusOK || text != "serving\n" {
		t.Errorf("health with a new certificate: %d %s", status, text)
	}
	s.client(t, "--tls", filepath.Join(dir, credentials.Client)).succeeds()
}

// TestTLSAllow lets one of the clients of one CA in.
func TestTLSAllow(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	server, _ := certificates(t, ipv4, "--client", "alice", "--client", "bob", "--client", "Alice", "--client", "alice2")
	s := serve(t, "--tls", server, "--tls-allow", "alice", "--listen", ipv4)
	s.client(t, "--tls", filepath.Join(server, "../alice")).succeeds()
	s.event("client.accepted", "certificate", "alice")
	s.client(t, "--tls", filepath.Join(server, "../bob")).fails(1, `this server does not serve the certificate "bob"; try: another one, or rdma_server --tls-allow`)
	failed := s.event("client.failed", "certificate", "bob", "error", "does not serve the certificate")
	hasNoRegion(t, s.process, failed.str("who"))
	for _, other := range []string{"Alice", "alice2"} {
		s.client(t, "--tls", filepath.Join(server, "..", other)).fails(1, `does not serve the certificate "`+other+`"`)
	}
	s.held.expect(t, s)
	s.stops()
}
