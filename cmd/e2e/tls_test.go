package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// certificates runs rdma_lab tls and returns the directories of the two ends.
func certificates(t *testing.T, host string, flags ...string) (server, client string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	labTLS(t, append(flags, dir, "--host", host)...)
	return filepath.Join(dir, "server"), filepath.Join(dir, "client")
}

func labTLS(t *testing.T, args ...string) {
	t.Helper()
	startCommand(t, "rdma_lab", append([]string{filepath.Join(binaries, "rdma_lab"), "tls"}, args...)).succeeds()
}

// TestTLS runs jobs over an exchange with TLS, and refuses the clients that may not come: one line
// at each end has the reason and the remedy, and neither end registers memory.
func TestTLS(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	server, client := certificates(t, ipv4)
	_, stranger := certificates(t, ipv4)
	s := serve(t, "--tls", server, "--listen", ipv4)
	for _, job := range []string{"send", "bulk", "net-echo"} {
		s.client(t, "--tls", client, "--job", job).succeeds()
	}
	for _, test := range []struct {
		name             string
		flags            []string
		client, atServer string
	}{
		{"no TLS", nil, "the server takes only TLS; try: --tls DIR at the client", "the client does not use TLS; try: --tls at both ends"},
		{"another CA", []string{"--tls", stranger}, "the server's certificate is not from the CA of this end; try: ", "the client refused this end's certificate"},
		{"the server's directory", []string{"--tls", server}, "the server refused this end's certificate", "the client's certificate is for the other end"},
	} {
		c := s.client(t, test.flags...)
		c.fails(1, test.client)
		failed := s.event("client.failed", "error", test.atServer)
		hasNoRegion(t, c, "client")
		hasNoRegion(t, s.process, failed.str("who"))
	}
	s.held.expect(t, s)
	s.stops()

	plain := serve(t)
	c := plain.client(t, "--tls", client)
	c.fails(1, "the server does not use TLS; try: --tls at both ends")
	failed := plain.event("client.failed", "error", "a TLS server or client")
	hasNoRegion(t, c, "client")
	hasNoRegion(t, plain.process, failed.str("who"))
	plain.stops()

	other, _ := certificates(t, "server.lab")
	start(t, "rdma_client", "--json", "--tls", filepath.Join(other, "../client"), ipv4, device, serve(t, "--tls", other).port).
		fails(1, "the server's certificate is for server.lab, not for "+ipv4+"; try: rdma_lab tls --host "+ipv4)
	testBadInput(t, []badInput{
		{"no directory", "client --tls /nosuch " + ipv4 + " " + device, 1, []string{"--tls", "/nosuch/tls.crt", "try: a directory that rdma_lab tls has made"}},
		{"another program", "server --peer pingpong --tls /nosuch " + device, 2, []string{"--tls is for jobs of rdma_client"}},
		{"the client's directory", "server --tls " + client + " " + device, 1, []string{"--tls", client, "it is for the other end: a client's cannot serve"}},
		{"longer than the CA", "lab tls " + filepath.Join(t.TempDir(), "lab") + " --host h --days 5000", 2, []string{"--days 5000 is longer than the ten years of the CA; try: --days 3650"}},
		{"nothing to allow", "server --tls-allow client " + device, 2, []string{"--tls-allow needs the certificates of --tls"}},
	})
}

// hasNoRegion checks that who registered no memory. The process may still run.
func hasNoRegion(t *testing.T, p *process, who string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.recorded() {
		if r.str("who") == who && r.str("verb") == "ibv_reg_mr" {
			t.Errorf("%s registered memory: %v", who, r)
		}
	}
}

// TestListen checks where a server listens, and that it warns if strangers can reach an exchange
// without TLS.
func TestListen(t *testing.T) {
	noLeak(t)
	server, _ := certificates(t, ipv4)
	for _, test := range []struct {
		name    string
		flags   []string
		address string // what it begins with
		warns   bool
	}{
		{"all", []string{"--listen", "0.0.0.0"}, "[::]:", true},
		{"loopback", []string{"--listen", "127.0.0.1"}, "127.0.0.1:", false},
		{"TLS on all", []string{"--tls", server}, "[::]:", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.flags...)
			if got := s.event("server.listening").str("address"); !strings.HasPrefix(got, test.address) {
				t.Errorf("it listens on %s, want %s", got, test.address)
			}
			s.stops()
			warning := s.find("server.unauthenticated", "level", "WARN", "msg", "the exchange is unauthenticated", "msg", "try: --tls DIR, or --listen")
			if (warning != nil) != test.warns {
				t.Errorf("warning %v", warning)
			}
		})
	}
}
