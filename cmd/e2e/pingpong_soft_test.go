//go:build !rdma

// Tests of different flags, which are the same on every device.

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestPingpongDifferentFlags runs two ends with different flags. An end that fails must name the
// flags to compare.
func TestPingpongDifferentFlags(t *testing.T) {
	noLeak(t)
	for _, test := range []struct{ server, client, serverSays, clientSays string }{
		{"rc -s 100", "rc -s 200", "-s 100", "-s 200"},
		{"rc -s 200", "rc -s 100", "100 bytes, but this end's have 200; try: --size 100 here", ""},
		{"rc -m 512", "rc -m 1024", "-m 512", "-m 1024"},
		{"rc -n 20", "rc -n 40", "", "-n 40"},
		{"uc -n 40", "uc -n 20", "which UC does not send again", ""},
		{"ud -s 100", "ud -s 200", "with -n 1000 -s 100", "which UD does not send again"},
		{"rc", "uc", "ibv_rc_pingpong is the peer of --job rc-pingpong", "--job uc-pingpong"},
		{"ud", "rc", "--job ud-pingpong", "--job rc-pingpong"},
		{"rc", "srq", "as ibv_srq_pingpong does", "the peer sent one line"},
		{"srq", "rc", "the peer sent one line", ""},
		{"srq -q 3", "srq -q 5", "--qps 5 here, or -q 3 there", "closed the connection"},
		{"rc -c -s 9000 -n 10", "rc -s 9000 -n 10", "invalid data in page 0, and in 3 of all 3 pages", ""},
	} {
		t.Run(test.server+" and "+test.client, func(t *testing.T) {
			t.Parallel()
			flags := func(line string) []string {
				kind, rest, _ := strings.Cut(line, " ")
				return append(pingpongRun{kind: kind, flags: rest}.ours(), "--timeout", "3s")
			}
			s := serve(t, append([]string{"--once"}, flags(test.server)...)...)
			c := s.client(t, flags(test.client)...)
			for _, end := range []struct {
				p    *process
				says string
			}{{s.process, test.serverSays}, {c, test.clientSays}} {
				if end.says == "" {
					end.p.wait() // it may succeed
					continue
				}
				end.p.fails(1, end.says)
			}
		})
	}
}

// TestPingpongPeerDies kills one end during the messages. The other must report how many messages it has
// received.
func TestPingpongPeerDies(t *testing.T) {
	noLeak(t)
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		for _, victim := range []string{"server", "client"} {
			t.Run(kind+"/"+victim, func(t *testing.T) {
				t.Parallel()
				flags := append(pingpongRun{kind: kind, flags: "-n 1000000000 -e"}.ours(), "--timeout", "3s")
				s := serve(t, append([]string{"--once"}, flags...)...)
				c := s.client(t, flags...)
				c.event("qp.transition", "to", "RTS")
				time.Sleep(testkit.Moment) // so that messages are on their way
				dies, lives := s.process, c
				if victim == "client" {
					dies, lives = lives, dies
				}
				dies.signal(os.Kill)
				lives.fails(1, "messages received and ", "of 1000000000 each", "try: ")
			})
		}
	}
}

func TestPingpongBadInput(t *testing.T) {
	noLeak(t)
	var tests []badInput
	for _, program := range []string{"client %s 127.0.0.1 " + device, "server %s " + device + " 0"} {
		for _, test := range []struct {
			flags  string
			status int
			want   string
		}{
			{"--iters 10", 2, "--iters is"},
			{"-n 10", 2, "-n"},
			{"--peer pingpong --text hello", 2, "text"},
			{"--peer pingpong -l 3", 2, "-l"},
			{"--peer pingpong -q 3 -j srq", 2, `--job with --peer pingpong: there is no job "srq"; try: rc-pingpong, uc-pingpong, ud-pingpong, srq-pingpong`},
			{"--peer pingpong --qps 3", 2, "--qps is not a flag of the job rc-pingpong, but of: "},
			{"--peer pingpong -s much", 2, "much"},
			{"--peer pingpong -m 100", 2, "256, 512, 1024"},
		} {
			tests = append(tests, badInput{test.flags, fmt.Sprintf(program, test.flags), test.status, []string{test.want}})
		}
	}
	for _, test := range []struct {
		flags  string
		status int
		want   string
	}{
		{"-n 0", 2, "try: --iters 1 or more"},
		{"-s 0", 2, "--size 1 or more"},
		{"-r 0", 2, "--rx-depth 1 or more"},
		{"-r 100000000", 1, "receive queue"},
		{"-j srq-pingpong -q 256", 2, "--qps from 1 to 255"},
		{"-j srq-pingpong -q 5 -r 4", 2, "--rx-depth 5 or more"},
		{"-j srq-pingpong -r 100000000", 1, "try: fewer work requests"},
	} {
		tests = append(tests, badInput{test.flags, "client --peer pingpong " + test.flags + " 127.0.0.1 " + device, test.status, []string{test.want}},
			badInput{test.flags, "server --once --peer pingpong " + test.flags + " " + device + " 0", test.status, []string{test.want}})
	}
	testBadInput(t, tests)
	s := serve(t, "--once", "--peer", "pingpong", "--job", "ud-pingpong")
	s.client(t, "--peer", "pingpong", "--job", "ud-pingpong", "-s", "5000").fails(1, "a datagram of 5000 bytes does not fit into a packet of 4096; try: --size 4096 or less")
	s.event("client.failed", "error", "closed the connection before it sent anything")
	s.client(t, "--peer", "pingpong", "--job", "ud-pingpong").succeeds() // only a connection that sends something counts as the client
	s.succeeds()
}
