package oob

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pkg/errors"
)

// TestForeignPeers checks that the error names well-known programs.
func TestForeignPeers(t *testing.T) {
	for _, test := range []struct{ greeting, text string }{
		{"HTTP/1.1 400 Bad Request\r\nServer: x\r\n", `answered like an HTTP server: "HTTP/1.1 400 Bad Request"; is this the right port?`},
		{"GET / HTTP/1.1\r\n", `answered like an HTTP client: "GET / HTTP/1.1"`},
		{"SSH-2.0-OpenSSH_9.2p1\r\n", `answered like an SSH server or client: "SSH-2.0-OpenSSH_9.2p1"`},
		{"\x15\x03\x01\x00\x02\x02\x46", "answered like a TLS server or client: 15 03 01"},
		{"220 mail.example.org ESMTP\r\n", "answered like a mail or FTP server"},
		{"0000:000011:8f3a2b:00000000000000000000ffff0a000001\x00", `answered like ibv_rc_pingpong or a similar program: "0000:000011:8f3a2b:`},
		{"6.06" + strings.Repeat("\x00", 12), `answered like a perftest program (ib_send_bw and the like): "6.06"`},
		{strings.Repeat("\x01", 34), "answered like RDMA_RC_example: 01 01"},
		{"\x01\n" + strings.Repeat("\x01", 32), "answered like RDMA_RC_example: 01 0a 01"},
		{strings.Repeat("\x02", 22), "answered like a rocev2-learn program: 02 02"},
		{"\x1b]0;evil\x07\n", "its first bytes are 1b 5d 30 3b"},
		{strings.Repeat("z", 300), "its first bytes are \"zzz"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t, Options{})
			go drain(server.nc)
			go server.nc.Write([]byte(test.greeting))
			_, err := client.Hello(t.Context(), Hello{Role: RoleClient})
			if !errors.Is(err, ErrForeignPeer) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%q: %v", test.greeting, err)
			}
			if strings.ContainsFunc(err.Error(), unprintable) {
				t.Errorf("%q: unprintable text %q", test.greeting, err)
			}
		})
	}
}

// resetPeer writes once and resets the connection: what was not read with the first Read is lost.
type resetPeer struct {
	cannedPeer
	reads int
}

func (p *resetPeer) Read(b []byte) (int, error) {
	if p.reads++; p.reads > 1 {
		return 0, syscall.ECONNRESET
	}
	return p.cannedPeer.Read(b)
}

// TestForeignPeerResets checks that a program that resets the connection at once is named all the same.
func TestForeignPeerResets(t *testing.T) {
	peer := &resetPeer{cannedPeer: cannedPeer{rest: bytes.Repeat([]byte{1}, 34)}}
	c := NewConn(peer, Options{})
	defer c.Close()
	_, err := c.Hello(t.Context(), Hello{Role: RoleServer})
	if !errors.Is(err, ErrForeignPeer) || !strings.Contains(err.Error(), "answered like RDMA_RC_example") {
		t.Error(err)
	}
}

// TestForeignPeerGetsTheHello lets the peer's first bytes come before the hello is sent. The peer still gets it: a client that
// begins with TLS so finds out that this end does not.
func TestForeignPeerGetsTheHello(t *testing.T) {
	here, peer := net.Pipe()
	defer peer.Close()
	c := NewConn(here, Options{})
	defer c.Close()
	if err := c.claim(carriesMessages); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write(bytes.Repeat([]byte{0x16, 3, 1}, quoteSize)[:quoteSize]); err != nil {
		t.Fatal(err)
	}
	<-c.ctx.Done()
	got := make([]byte, len(magic))
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(peer, got)
		read <- err
		io.Copy(io.Discard, peer)
	}()
	if _, err := c.Hello(t.Context(), Hello{Role: RoleServer}); !errors.Is(err, ErrForeignPeer) {
		t.Error(err)
	}
	c.Close()
	if err := <-read; err != nil || string(got) != magic {
		t.Errorf("the peer got %q: %v", got, err)
	}
}

// TestRealHTTPServer checks that a real HTTP server answers the hello and is named.
func TestRealHTTPServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := Dial(t.Context(), server.Listener.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Hello(t.Context(), Hello{Role: RoleClient})
	if !errors.Is(err, ErrForeignPeer) || !strings.Contains(err.Error(), `like an HTTP server: "HTTP/1.1 400 Bad Request"`) {
		t.Error(err)
	}
}
