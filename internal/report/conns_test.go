package report

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// asker is a client of an HTTP server that keeps its connection.
type asker struct {
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, address string) *asker {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(testkit.Deadline()); err != nil {
		t.Fatal(err)
	}
	return &asker{conn, bufio.NewReader(conn)}
}

func (a *asker) ask(path string) error {
	if _, err := io.WriteString(a, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(a.answers, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// TestIdleConnectionsMakeRoom checks that a full server closes the connection that has waited for a request the
// longest, also for the rest of a request, and none with a request in progress.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 4
	begun, goOn := make(chan bool, most), make(chan bool)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- true
			<-goOn
		}
	})}
	served := make(chan error, 1)
	go func() { served <- ServeHTTP(server, listener, most) }()
	slow := make(chan error, most)
	takeTime := func() {
		a := dial(t, listener.Addr().String())
		go func() { slow <- a.ask("/slow") }()
		testkit.Receive(t, begun, "begin of a request")
	}
	come := func() *asker {
		t.Helper()
		a := dial(t, listener.Addr().String())
		if err := a.ask("/"); err != nil {
			t.Fatalf("a new connection: %v", err)
		}
		return a
	}
	ends := func(a *asker) {
		t.Helper()
		if n, err := a.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%d bytes, %v; want the end of the connection", n, err)
		}
	}
	half := dial(t, listener.Addr().String())
	if _, err := io.WriteString(half, "GET / HTTP/1.1\r\nHost"); err != nil {
		t.Fatal(err)
	}
	takeTime()
	second, third := come(), come()
	come()
	ends(half)
	if err := second.ask("/"); err != nil { // now the third has waited the longest
		t.Error(err)
	}
	come()
	ends(third)
	if err := second.ask("/"); err != nil {
		t.Error(err)
	}
	for range most - 1 {
		takeTime()
	}
	late := dial(t, listener.Addr().String())
	answered := make(chan error, 1)
	go func() { answered <- late.ask("/") }()
	goOn <- true
	if err := testkit.Receive(t, answered, "answer to one more"); err != nil {
		t.Error(err)
	}
	close(goOn)
	for range most {
		if err := testkit.Receive(t, slow, "end of a slow request"); err != nil {
			t.Error(err)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	testkit.Receive(t, served, "end of the server")
}
