//go:build rdma

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// cPeer starts cpeer/cpeer.c, which make test-rxe compiles. The comment of cpeer.c describes
// the environment variables in env.
func cPeer(t *testing.T, env []string, format, port string, server ...string) *process {
	t.Helper()
	return startBy(t, append([]string{"env"}, env...), "out/cpeer", append([]string{format, device, gidIndex4, port}, server...)...)
}

// prints waits until the program has printed a line that contains text.
func (p *process) prints(text string) {
	p.t.Helper()
	p.await("line "+text, func() bool {
		return slices.ContainsFunc(p.lines, func(line string) bool { return strings.Contains(line, text) })
	})
}

// cRun is a run with a C program as the peer.
type cRun struct {
	format string
	size   int // of its messages
	mtu    int // 0: its own
	flags  []string

	qps int // of a later rocev2-learn; 0: one that has one and does not say so

	clientEvents, serverEvents []wantEvent // events of our programs
	theirServer, theirClient   []string    // lines of the C program
}

func (r *cRun) env() []string {
	env := []string{fmt.Sprintf("SIZE=%d", r.size)}
	if r.mtu != 0 {
		env = append(env, fmt.Sprintf("MTU=%d", r.mtu))
	}
	if r.qps != 0 {
		env = append(env, fmt.Sprintf("QPS=%d", r.qps))
	}
	return env
}

func (r *cRun) ours() []string {
	flags := append([]string{"--peer", r.format, "--size", fmt.Sprint(r.size)}, r.flags...)
	if r.mtu != 0 {
		flags = append(flags, "--mtu", fmt.Sprint(r.mtu))
	}
	return flags
}

func cRuns() (runs []cRun) {
	for _, size := range []int{16, 64} {
		runs = append(runs, cRun{format: "rc-example", size: size,
			clientEvents: []wantEvent{wants("message.received", "text", "sent from C", "bytes", size), wants("message.received", "text", "read from C"), wants("message.sent", "bytes", size)},
			serverEvents: []wantEvent{wants("message.sent", "bytes", size), wants("message.received", "text", "written by C")},
			theirServer:  []string{"written: RDMA write oper", "done"},
			theirClient:  []string{"received: SEND operation", "read: RDMA read oper", "done"}})
	}
	for _, mtu := range []int{256, 1024} {
		runs = append(runs, cRun{format: "rocev2-learn", size: 4096, mtu: mtu, flags: []string{"-s", "grüße"},
			clientEvents: []wantEvent{wants("message.sent", "bytes", 8), wants("message.received", "text", "reply from C", "bytes", 4096)},
			serverEvents: []wantEvent{wants("message.received", "text", "message from C", "bytes", 15), wants("message.sent", "bytes", 4096)},
			theirServer:  []string{"received: grüße", "done"},
			theirClient:  []string{"received 4096: grüße", "done"}})
	}
	for _, qps := range []int{1, 4, 16} {
		runs = append(runs, cRun{format: "rocev2-learn", size: 4096, mtu: 1024, qps: qps, flags: []string{"-s", "grüße"},
			clientEvents: slices.Repeat([]wantEvent{wants("message.received", "text", "reply from C", "bytes", 4096)}, qps),
			serverEvents: slices.Repeat([]wantEvent{wants("message.received", "text", "message from C", "bytes", 4096)}, qps),
			theirServer:  []string{fmt.Sprintf("received %d: grüße", qps), "done"},
			theirClient:  []string{fmt.Sprintf("received %d: grüße", qps), "done"}})
	}
	return runs
}

// TestCPeers runs a C program as the server, then as the client.
func TestCPeers(t *testing.T) {
	noLeak(t)
	for _, r := range cRuns() {
		t.Run(fmt.Sprintf("%s/%d/%d/%d/client", r.format, r.size, r.mtu, r.qps), func(t *testing.T) {
			port := freePort(t)
			s := cPeer(t, r.env(), r.format, port)
			s.prints("listening")
			flags := r.ours()
			if r.qps != 0 { // the server takes as many as the client has
				flags = append(flags, fmt.Sprintf("--qps=%d", r.qps))
			}
			c := start(t, "rdma_client", append(flags, "--json", ipv4, device, port)...)
			c.succeeds()
			s.succeeds()
			c.logged(t, r.clientEvents)
			for _, line := range r.theirServer {
				s.prints(line)
			}
			checkTransitions(t, c)
		})
		t.Run(fmt.Sprintf("%s/%d/%d/%d/server", r.format, r.size, r.mtu, r.qps), func(t *testing.T) {
			s := serve(t, append([]string{"--once"}, r.ours()...)...)
			c := cPeer(t, r.env(), r.format, s.port, ipv4)
			c.succeeds()
			s.succeeds()
			s.logged(t, r.serverEvents)
			for _, line := range r.theirClient {
				c.prints(line)
			}
			checkTransitions(t, s.process)
		})
	}
}

// TestCPeersThatEnd runs a C program that ends at any step, or without its -g. Our program
// must fail soon with one clear line and leave nothing behind.
func TestCPeersThatEnd(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	const limit = "--timeout=3s" // without progress
	for _, test := range []struct {
		format         string
		server, client []string // the steps of the C program in each role
	}{
		{"rc-example", []string{"exchange", "Q", "R"}, []string{"exchange", "Q", "read"}},
		{"rocev2-learn", []string{"exchange", "receive"}, []string{"exchange", "send"}},
	} {
		for _, step := range test.server {
			t.Run(test.format+"/C server/"+step, func(t *testing.T) {
				port := freePort(t)
				s := cPeer(t, []string{"DIE=" + step}, test.format, port)
				s.prints("listening")
				start(t, "rdma_client", "--json", "--peer", test.format, limit, ipv4, device, port).fails(1)
				if status := s.wait(); status != 3 {
					t.Errorf("the C program's status is %d", status)
				}
			})
		}
		s := serve(t, "--peer", test.format, limit)
		for i, step := range test.client {
			t.Run(test.format+"/C client/"+step, func(t *testing.T) {
				c := cPeer(t, []string{"DIE=" + step}, test.format, s.port, ipv4)
				if status := c.wait(); status != 3 {
					t.Errorf("the C program's status is %d: %s", status, &c.stderr)
				}
				s.await("failure", func() bool { return len(s.all("client.failed")) == i+1 })
			})
		}
		t.Run(test.format+"/no GID", func(t *testing.T) {
			cPeer(t, []string{"NO_GID=1"}, test.format, s.port, ipv4).wait()
			s.event("client.failed", "error", "-g 1")
		})
		c := cPeer(t, nil, test.format, s.port, ipv4)
		c.succeeds()
		s.stops()
	}
}
