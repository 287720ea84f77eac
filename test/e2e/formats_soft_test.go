//go:build !rdma

// Tests of the TCP exchange, which is the same on every device.

package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestOtherFormatsServerStays checks that a server of another format serves clients one after
// the other, and that other connections do it no harm.
func TestOtherFormatsServerStays(t *testing.T) {
	noLeak(t)
	for wire, native := range map[string]string{ // the error of a native client
		"rc-example":   "--peer",            // the server has written
		"rocev2-learn": "one's counterpart", // it has only read
	} {
		t.Run(wire, func(t *testing.T) {
			s := serve(t, "--peer", wire)
			for greeting, want := range map[string]string{
				"":      "closed the connection before it sent anything",
				"short": "after 5 of ",
				"GET / HTTP/1.1\r\nHost: someone.example\r\n\r\n":         "like an HTTP client",
				"0000:000011:8f3a2b:00000000000000000000ffff0a000001\x00": "like ibv_rc_pingpong",
				strings.Repeat("\x00", 34):                                "queue pair number 0x0",
				strings.Repeat("\x01", 34):                                "queue pair number 0x1010101",
			} {
				tcp := dialRaw(t, s)
				tcp.Write([]byte(greeting))
				tcp.CloseWrite()
				io.Copy(io.Discard, tcp) // until the server closes
				tcp.Close()
				s.event("client.failed", "error", want)
			}
			hasty := serve(t, "--peer", wire, "--timeout", "1s")
			dialRaw(t, hasty)
			hasty.event("client.failed", "error", "is silent")
			hasty.held.expect(t, hasty)
			hasty.stops()
			s.client(t).fails(1, native)
			for range 2 {
				s.client(t, "--peer", wire).succeeds()
			}
			s.held.expect(t, s)
			s.stops()
		})
	}
}

// TestOtherFormatsOnceOutlivesProbes checks that --once counts only clients of the format.
func TestOtherFormatsOnceOutlivesProbes(t *testing.T) {
	noLeak(t)
	for _, wire := range []string{"rc-example", "rocev2-learn", "pingpong", "perftest"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "--peer", wire, "--once", "--timeout", "5s")
			for greeting, want := range map[string]string{
				"":      "closed the connection before it sent anything",
				"short": "closed the connection after 5 of ",
				"GET / HTTP/1.1\r\nHost: someone.example\r\n\r\n": "like an HTTP client",
			} {
				tcp := dialRaw(t, s)
				tcp.Write([]byte(greeting))
				tcp.CloseWrite()
				s.event("client.failed", "error", want)
			}
			slow := dialRaw(t, s)
			slow.Write([]byte("sl"))
			s.event("client.failed", "peer", slow.LocalAddr().String(), "error", "timed out")
			s.client(t, "--peer", wire).succeeds()
			s.succeeds()
		})
	}
}

// TestOtherFormatsWrongServer connects a client to servers of other formats and programs.
func TestOtherFormatsWrongServer(t *testing.T) {
	noLeak(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	native := serve(t)
	t.Cleanup(native.stops)
	answering := func(what string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					c.Write([]byte(what))
					c.SetDeadline(testkit.Deadline())
					io.Copy(io.Discard, c)
				}()
			}
		}()
		return l.Addr().String()
	}
	for _, wire := range []string{"rc-example", "rocev2-learn"} {
		for name, test := range map[string]struct{ address, want string }{
			"HTTP":   {web.Listener.Addr().String(), "exchange: "}, // it answers if the bytes contain a newline
			"native": {native.address(), "native format"},
			"silent": {answering(""), "silent"},
			"noise":  {answering(strings.Repeat("noise", 20)), "queue pair number"},
			"short":  {answering("short"), "after 5 of "},
		} {
			t.Run(wire+"/"+name, func(t *testing.T) {
				t.Parallel()
				host, port, err := net.SplitHostPort(test.address)
				if err != nil {
					t.Fatal(err)
				}
				client := func(timeout string) *process {
					return start(t, "rdma_client", "--json", "--peer", wire, timeout, host, device, port)
				}
				if name == "silent" || name == "HTTP" || name == "short" { // the server waits for more
					runsOut(t, func() *process { return client("--timeout=1s") }, test.want)
				} else {
					client(never).fails(1, test.want)
				}
			})
		}
	}
}

func TestOtherFormatsBadInput(t *testing.T) {
	noLeak(t)
	client := func(want string, flags ...string) {
		t.Helper()
		start(t, "rdma_client", append(flags, ipv4, device, "1")...).fails(2, want)
	}
	server := func(want string, flags ...string) {
		t.Helper()
		start(t, "rdma_server", append(flags, device, "0")...).fails(2, want)
	}
	client("try: native, rc-example", "--peer", "morse")
	server("try: native, rc-example", "--peer", "morse")
	client(`--job with --peer rc-example: there is no job "send"`, "--peer", "rc-example", "--job", "send")
	client("--chunk is not a flag of the job rc-example", "--peer", "rc-example", "--chunk", "5")
	server("--size is for --peer", "--size", "5")
	server("--job is for --peer", "--job", "send")
	server("--allow is for jobs of rdma_client", "--peer", "rc-example", "--allow", "send")
	server("a buffer of 0 bytes", "--peer", "rocev2-learn", "--size", "0")
	server("a buffer of 0 bytes", "--peer", "rc-example", "--size", "0")
	client("path MTU of 256", "--peer", "rc-example", "--mtu", "1024")
	server("path MTU of 256", "--peer", "rc-example", "--mtu", "1024")
	server("--size 21", "--peer", "rc-example", "-s", "0123456789abcdefghij")
	client("--size 6", "--peer", "rocev2-learn", "-s", "12345", "--size", "5")
}
