package metrics

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
	"github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// served is a server of rdma_server's that listens on loopback.
type served struct {
	address, path string // path has the secret
	secret        []byte // what only requests for an address of this host may read
}

// servers starts both of rdma_server's.
func servers(f *testing.F) []served {
	f.Helper()
	log := slog.New(slog.DiscardHandler)
	metrics, err := Listen(f.Context(), "127.0.0.1:0", new(run.Counts), log)
	if err != nil {
		f.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(f.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- report.NewLive("soft0").Serve(ctx, listener, false) }()
	f.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			f.Error(err)
		}
		if err := metrics.Close(); err != nil {
			f.Error(err)
		}
	})
	return []served{
		{metrics.http.Addr, "/metrics", []byte("rawverbs_goroutines")},
		{listener.Addr().String(), "/", []byte("<html")},
	}
}

// ask sends bytes to a server, and returns what it answers until the deadline.
func (s served) ask(t *testing.T, request []byte, deadline time.Time) []byte {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(testkit.Context(t), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tcp := conn.(*net.TCPConn)
	_ = tcp.SetDeadline(deadline)
	_, _ = tcp.Write(request) // the server may have closed
	_ = tcp.CloseWrite()
	answer, _ := io.ReadAll(io.LimitReader(tcp, 64<<10))
	return answer
}

// forThisHost reports whether one of the requests is for an address of this host. It reads them as
// net/http does, but decides by other functions than the server.
func forThisHost(requests []byte) bool {
	for r := bufio.NewReader(bytes.NewReader(requests)); ; {
		request, err := http.ReadRequest(r)
		if err != nil {
			return false
		}
		withoutPort := request.Host[:max(0, strings.LastIndex(request.Host, ":"))]
		for _, host := range []string{request.Host, withoutPort} {
			host, _, _ = strings.Cut(strings.Trim(host, "[]"), "%")
			if host == "localhost" || net.ParseIP(host).IsLoopback() {
				return true
			}
		}
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

// FuzzHTTP sends any bytes to --metrics and --http. Both go on serving, and answer no request for another name.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: localhost:80\r\nAccept: text/plain\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: stranger.example\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1.stranger.example\r\n\r\n",
		"GET http://stranger.example/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET http://127.0.0.1/ HTTP/1.1\r\nHost: stranger.example\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "GET //metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /metrics?name[]=a HTTP/1.1\r\nHost: ::1\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: ::1\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost:J80\r\n\r\n",
		"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		"GET /events HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "\r\n\r\n", "",
	} {
		f.Add([]byte(seed))
	}
	both := servers(f)
	f.Fuzz(func(t *testing.T, request []byte) {
		for _, s := range both {
			moment := time.Now().Add(10 * testkit.Moment) // the answer to /events has no end
			if answer := s.ask(t, request, moment); bytes.Contains(answer, s.secret) && !forThisHost(request) {
				t.Errorf("%q reads %.300q", request, answer)
			}
			if answer := s.ask(t, []byte("GET "+s.path+" HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"), testkit.Deadline()); !bytes.Contains(answer, s.secret) {
				t.Errorf("after %q the server answers %.300q", request, answer)
			}
		}
	})
}
