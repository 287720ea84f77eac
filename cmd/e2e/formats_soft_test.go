//go:build !rdma

// Tests of the TCP exchange, which is the same on every device.

package e2e

import (
	"io"
	"net"
	"testing"
)

// TestOtherFormatsMeetStrangers connects each program of another format to other programs. --once counts only clients of
// the format. The tests of cmd/internal/peer have many more strangers.
func TestOtherFormatsMeetStrangers(t *testing.T) {
	noLeak(t)
	const ssh = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"
	for wire, native := range map[string]string{ // the error of a native client
		"rc-example":   "--peer",            // the server has written
		"rocev2-learn": "one's counterpart", // it has only read, as have the next
		"pingpong":     "one's counterpart",
		"perftest":     "one's counterpart",
	} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "--peer", wire, "--once", "--timeout", "5s")
			for greeting, want := range map[string]string{
				"":      "closed the connection before it sent anything",
				"short": "closed the connection after 5 of ",
				ssh:     "like an SSH server",
			} {
				tcp := dialRaw(t, s)
				tcp.Write([]byte(greeting))
				tcp.CloseWrite()
				s.event("client.failed", "error", want)
			}
			slow := dialRaw(t, s)
			slow.Write([]byte("sl"))
			s.event("client.failed", "peer", slow.LocalAddr().String(), "error", "timed out")
			s.client(t).fails(1, native)
			s.client(t, "--peer", wire).succeeds()
			s.succeeds()

			host, port, err := net.SplitHostPort(listenRaw(t, func(c net.Conn) { io.WriteString(c, ssh) }))
			if err != nil {
				t.Fatal(err)
			}
			start(t, "rdma_client", "--json", "--peer", wire, host, device, port).fails(1, "like an SSH server")
		})
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
