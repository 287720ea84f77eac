//go:build !rdma

package e2e

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestSummary reads a server's line of each client: one that succeeds, one that asks for another job, one without a
// certificate, and one that is killed.
func TestSummary(t *testing.T) {
	noLeak(t)
	server, client := certificates(t, ipv4)
	s := start(t, "rdma_server", "--log", "summary", "--allow", "send,net-echo", "--tls", server, "--listen", ipv4, device, "0")
	port := s.line(`^time=\S+ level=INFO msg="listening on \S+:(\d+) for [^"]*" address=\S+ program="rdma_server \S+" max_memory=\d+ max_memory_from="\S.*"$`)[1]
	const stranger = `^time=\S+ level=(INFO|ERROR) msg=client peer=127\.0\.0\.1:\d+ `
	const who = stranger + `certificate=client `

	start(t, "rdma_client", "--quiet", "--tls", client, ipv4, device, port).succeeds()
	s.line(who + `job=send outcome=succeeded bytes=\d+ seconds=[0-9.e-]+$`)
	start(t, "rdma_client", "--quiet", "--tls", client, "--job", "bulk", ipv4, device, port).fails(1, `does not do the job "bulk"`)
	s.line(who + `outcome=failed bytes=0 seconds=\S+ error=".*does not do the job \\"bulk\\"`)
	start(t, "rdma_client", "--quiet", ipv4, device, port).fails(1, "takes only TLS")
	s.line(stranger + `outcome=failed bytes=0 seconds=\S+ error="TLS with .*the client does not use TLS`)
	killed := start(t, "rdma_client", "--json", never, "--tls", client, "--job", "net-echo", "--count", "1000000", ipv4, device, port)
	killed.event("message.received")
	killed.signal(syscall.SIGKILL)
	s.line(who + `job=net-echo outcome=failed bytes=\d+ seconds=\S+ error=`)

	s.signal(syscall.SIGTERM)
	s.succeeds()
	if n := len(slices.DeleteFunc(slices.Clone(s.lines), func(line string) bool { return !strings.Contains(line, "msg=client") })); n != 4 {
		t.Errorf("%d lines of 4 clients: %s", n, strings.Join(s.lines, "\n"))
	}
}

// TestQuietServer: --quiet hides neither that strangers can use the server nor a client that failed, and nothing else
// is printed.
func TestQuietServer(t *testing.T) {
	noLeak(t)
	port := freePort(t)
	s := start(t, "rdma_server", "--quiet", "--listen", "0.0.0.0", "--allow", "send", device, port)
	waitListening(t, port)
	start(t, "rdma_client", "--quiet", ipv4, device, port).succeeds()
	start(t, "rdma_client", "--quiet", "--job", "bulk", ipv4, device, port).fails(1, `does not do the job "bulk"`)
	s.signal(syscall.SIGTERM)
	if status := s.wait(); status != 0 || len(s.lines) > 0 {
		t.Errorf("status %d, output %q", status, s.lines)
	}
	lines := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `level=WARN msg="the exchange is unauthenticated: `) ||
		!strings.Contains(lines[1], "level=ERROR msg=client peer=127.0.0.1:") || !strings.Contains(lines[1], `does not do the job \"bulk\"`) {
		t.Errorf("stderr: %s", &s.stderr)
	}
}

// line waits for a line of the output that matches, and returns the match.
func (p *process) line(pattern string) (match []string) {
	p.t.Helper()
	expression := regexp.MustCompile(pattern)
	p.await("line "+pattern, func() bool {
		for _, line := range p.lines {
			if match = expression.FindStringSubmatch(line); match != nil {
				return true
			}
		}
		return false
	})
	return match
}
