//go:build !rdma

// Tests of the TCP exchange and of different flags, which are the same on every device.

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

const (
	pingpongLine  = "0000:000011:8f3a2b:00000000000000000000ffff7f000009\x00"
	perftestHello = "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	rcExampleData = "\x00\x00\x7f\x00\x00\x00\x00\x00\x00\x00\x00\x11\x00\x00\x00\x12\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01"
)

// TestPingpongWrongClient connects other programs to a pingpong server. The server must report
// each and keep serving.
func TestPingpongWrongClient(t *testing.T) {
	noLeak(t)
	patient, hasty := serve(t, "--peer", "pingpong", "-n", "20"), serve(t, "--peer", "pingpong", "--timeout", "1s", "-n", "20")
	var fail []func()
	for name, test := range map[string]struct {
		says, want string
		stays      bool // the client does not close
	}{
		"closes":            {"", "closed the connection before it sent anything", false},
		"cut short":         {pingpongLine[:5], "after 5 of ", false},
		"cut in the line":   {pingpongLine[:40], "after 28 of ", false},
		"line, then closes": {pingpongLine, `"done"`, false},
		"line, then stays":  {pingpongLine, `waiting for "done": timed out`, true},
		"not done":          {pingpongLine + "gone\x00", `not the client's last message`, false},
		"srq":               {strings.Repeat(pingpongLine, 256), "as ibv_srq_pingpong does", true},
		"done, then dies":   {pingpongLine + "done\x00", "nothing arrived for 1s", false},
		"HTTP":              {"GET / HTTP/1.1\r\nHost: someone.example\r\n\r\n", `like an HTTP client: "GET / HTTP/1.1"`, true},
		"SSH":               {"SSH-2.0-OpenSSH_9.2p1\r\n", `like an SSH server or client`, true},
		"perftest":          {perftestHello, "like a perftest program", true},
		"RDMA_RC_example":   {rcExampleData, "like RDMA_RC_example", true},
		"no queue pair":     {strings.Replace(pingpongLine, "000011", "000000", 1), "queue pair number is 0", true},
		"no GID":            {"0000:000011:8f3a2b:00000000000000000000000000000000\x00", "-g 1", true},
		"upper case":        {strings.ToUpper(pingpongLine), "8F3A2B", true},
		"silent":            {"", "is silent", true},
	} {
		s := patient
		if strings.Contains(test.want, "timed out") || strings.Contains(test.want, "silent") || strings.Contains(test.want, "nothing arrived") {
			s = hasty
		}
		come := func() *net.TCPConn {
			tcp := dialRaw(t, s)
			io.WriteString(tcp, test.says)
			if !test.stays {
				tcp.CloseWrite()
			}
			return tcp
		}
		tcp := come()
		fail = append(fail, func() {
			t.Run(name, func(t *testing.T) {
				if s == patient {
					s.event("client.failed", "peer", tcp.LocalAddr().String(), "error", test.want)
					return
				}
				insist(t, test.want, func() (got string) {
					got = s.event("client.failed", "peer", tcp.LocalAddr().String()).str("error")
					if !strings.Contains(got, test.want) {
						tcp = come()
					}
					return got
				})
			})
		})
	}
	for _, run := range fail { // all have come, so they wait side by side
		run()
	}
	hasty.held.expect(t, hasty)
	hasty.stops()
	s := patient
	s.client(t).fails(1, "closed the connection before it sent anything") // a client of the native format
	for range 2 {
		s.client(t, "--peer", "pingpong", "-n", "20").succeeds()
	}
	s.held.expect(t, s)
	s.stops()
}

// TestPingpongWrongServer connects a pingpong client to other programs.
func TestPingpongWrongServer(t *testing.T) {
	noLeak(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	answer := func(text string, stays bool) func() string {
		return func() string {
			return listenRaw(t, func(c net.Conn) {
				io.WriteString(c, text)
				if stays {
					io.Copy(io.Discard, c)
				}
			})
		}
	}
	for name, test := range map[string]struct {
		listen    func() (address string)
		job, want string
	}{
		"HTTP":              {web.Listener.Addr().String, "rc", "is silent"}, // it waits for the end of a line
		"closes":            {answer("", false), "rc", "closed the connection before it sent anything"},
		"cut short":         {answer(pingpongLine[:40], false), "rc", "after 28 of "},
		"silent":            {answer("", true), "rc", "is silent"},
		"silent to srq":     {answer("", true), "srq", "is silent"},
		"one line to srq":   {answer(pingpongLine, true), "srq", "the peer sent one line"},
		"a line, then dies": {answer(pingpongLine, false), "rc", "IBV_WC_RETRY_EXC_ERR"},
		"the same, UD":      {answer(pingpongLine, false), "ud", "nothing arrived for 1s"},
		"native":            {answer("RVO\n\x01\x01\x00\x00\x00\x00\x00\x10", true), "rc", "native format"},
		"SSH":               {answer("SSH-2.0-OpenSSH_9.2p1\r\n", true), "rc", "like an SSH server"},
		"perftest":          {answer(perftestHello, true), "uc", "like a perftest program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := func(timeout string) *process {
				host, port, err := net.SplitHostPort(test.listen())
				if err != nil {
					t.Fatal(err)
				}
				return start(t, "rdma_client", "--json", "--peer", "pingpong", "--job", test.job+"-pingpong", timeout, host, device, port)
			}
			if !strings.Contains(test.want, "silent") && !strings.Contains(test.want, "nothing arrived") && !strings.Contains(test.want, "one line") {
				client(never).fails(1, test.want)
				return
			}
			runsOut(t, func() *process { return client("--timeout=1s") }, test.want)
		})
	}
}

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
