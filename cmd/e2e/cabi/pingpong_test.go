//go:build cabi

package cabi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pingpong is one of rdma-core's examples, ibv_KIND_pingpong, with the flags of both ends.
type pingpong struct{ kind, flags string }

// pingpongs has each program with each way to wait, with and without a check of the data.
func pingpongs() (all []pingpong) {
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		for _, flags := range []string{"", "-e", "-c", "-e -c"} {
			all = append(all, pingpong{kind, flags})
		}
	}
	all = append(all, pingpong{"rc", "-o -P -c"}, pingpong{"rc", "-t"}, pingpong{"rc", "-N -c"}, pingpong{"rc", "-N -e"})
	if !testing.Short() {
		for _, kind := range []string{"rc", "uc", "ud", "srq"} {
			all = append(all, pingpong{kind, "-n 5000 -s 1"}, pingpong{kind, "-n 5000 -e"}, pingpong{kind, "-r 16 -c"})
		}
		for _, kind := range []string{"rc", "uc", "srq"} {
			all = append(all, pingpong{kind, "-n 50 -s 1000000 -c"}, pingpong{kind, "-m 256 -c"}, pingpong{kind, "-m 4096 -e -c"})
		}
		all = append(all, pingpong{"srq", "-q 1"}, pingpong{"srq", "-q 200 -n 2000 -c"}, pingpong{"rc", "-t -N"})
	}
	return all
}

func (p pingpong) c(t *testing.T, port string, server ...string) *program {
	t.Helper()
	return onSoft(t, slices.Concat([]string{"ibv_" + p.kind + "_pingpong", "-g", "1", "-p", port}, strings.Fields(p.flags), server)...)
}

// goes are the same flags for rdma_client and rdma_server.
func (p pingpong) goes() []string {
	return append([]string{"--peer", "pingpong", "--job", p.kind + "-pingpong"}, strings.Fields(p.flags)...)
}

// TestPingpong runs each program with itself.
func TestPingpong(t *testing.T) {
	for _, p := range pingpongs() {
		t.Run(p.kind+" "+p.flags, func(t *testing.T) {
			port := freePort(t)
			server := p.c(t, port)
			server.listens(port)
			client := p.c(t, port, "127.0.0.1")
			client.succeeds()
			server.succeeds()
			p.check(t, client)
			p.check(t, server)
			for i, other := range []*program{server, client} {
				mine := []*program{client, server}[i]
				if local, remote := mine.addresses("local"), other.addresses("remote"); len(local) == 0 || !slices.Equal(local, remote) {
					t.Errorf("addresses: one end printed %q, the other end has it as %q", local, remote)
				}
			}
		})
	}
}

var (
	pingpongResult  = regexp.MustCompile(`(?m)^[1-9]\d* bytes in \d+\.\d\d seconds = .*\n[1-9]\d* iters in `)
	pingpongAddress = regexp.MustCompile(`(?m)^ *(local|remote) address: +(.*)$`)
)

// check checks what an end printed. Only a line of output says that data is wrong.
func (p pingpong) check(t *testing.T, c *program) {
	t.Helper()
	if text := c.text(); !pingpongResult.MatchString(text) || strings.Contains(text, "invalid data") {
		t.Errorf("%q: no result, or invalid data", c.command)
	}
}

// addresses returns the queue pairs that a program printed: local or remote ones.
func (p *program) addresses(whose string) (all []string) {
	for _, found := range pingpongAddress.FindAllStringSubmatch(p.text(), -1) {
		if found[1] == whose {
			all = append(all, strings.ReplaceAll(found[2], ": GID", ", GID")) // the ud program's colon
		}
	}
	return all
}

// TestPingpongWithGo runs the C program with rdma_client and with rdma_server.
func TestPingpongWithGo(t *testing.T) {
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		for _, flags := range []string{"-c -s 1000", "-e -c -s 1000"} {
			p := pingpong{kind, flags}
			t.Run(fmt.Sprintf("%s %s/C server", kind, flags), func(t *testing.T) {
				port := freePort(t)
				server := p.c(t, port)
				server.listens(port)
				client := start(t, slices.Concat([]string{ours("rdma_client")}, p.goes(), []string{"127.0.0.1", "soft0", port})...)
				client.succeeds()
				server.succeeds()
				p.check(t, server)
			})
			t.Run(fmt.Sprintf("%s %s/C client", kind, flags), func(t *testing.T) {
				port := freePort(t)
				server := start(t, slices.Concat([]string{ours("rdma_server"), "--once"}, p.goes(), []string{"soft0", port})...)
				server.listens(port)
				client := p.c(t, port, "127.0.0.1")
				client.succeeds()
				server.succeeds()
				p.check(t, client)
			})
		}
	}
}
