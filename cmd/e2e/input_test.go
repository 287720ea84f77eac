package e2e

import (
	"net"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// badInput is a wrong command line with the expected status and error.
type badInput struct {
	name   string
	args   string // the binary's short name, then its arguments
	status int
	want   []string
}

func testBadInput(t *testing.T, tests []badInput) {
	for _, test := range tests {
		t.Run(test.name+"/"+test.args, func(t *testing.T) {
			name, args, _ := strings.Cut(test.args, " ")
			var list []string
			if args != "" || test.args != name {
				list = strings.Split(args, " ")
			}
			start(t, "rdma_"+name, list...).fails(test.status, test.want...)
		})
	}
}

// TestTooLarge checks texts and buffers that are too large. The end that knows the limit must
// report the error before it posts anything.
func TestTooLarge(t *testing.T) {
	noLeak(t)
	s := serve(t, "--max-size", "10")
	s.client(t, "--size", "5", "--text", "sixsix").fails(2, "the text has 6 bytes", "buffers 5", "--size 6")
	s.client(t, "--job", "write-read", "--size", "5", "-s", "sixsix").fails(2, "the text has 6 bytes", "region 5", "--size 6")
	for _, job := range []string{"send", "write-read"} {
		c := s.client(t, "--job", job, "-s", "", "--size", "1T")
		c.fails(1, "the client asks for 1T bytes", "at most 10", "--size 10", "--max-size")
	}
	s.event("client.failed", "error", "the client asks for 1T bytes")
	s.client(t, "--size", "10", "--text", "ten bytes.").succeeds()
	s.stops()
}

// listenRaw answers one TCP connection, then closes it.
func listenRaw(t *testing.T, answer func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(testkit.Deadline())
		// Read the client's bytes first: closing with unread bytes resets the
		// connection.
		c.Read(make([]byte, 4096))
		answer(c)
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
	})
	return l.Addr().String()
}
