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
	full := newLimited(listener, most)
	go func() { served <- serveLimited(server, full) }()
	waiting := func(want int) { // the server notes the end of a request after the client has its answer
		t.Helper()
		testkit.Until(t, "the connections wait for a request", func() bool {
			full.mu.Lock()
			defer full.mu.Unlock()
			return len(full.idle) == want
		})
	}
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
	waiting(1)
	second := come()
	waiting(2)
	third := come()
	waiting(3)
	come()
	ends(half)
	waiting(3)
	if err := second.ask("/"); err != nil { // now the third has waited the longest
		t.Error(err)
	}
	waiting(3)
	come()
	ends(third)
	waiting(3)
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

// TestBodiesKeepNobodyOut checks that a request whose body does not come is answered, and that its connection makes
// room.
func TestBodiesKeepNobodyOut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 2
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	served := make(chan error, 1)
	go func() { served <- ServeHTTP(server, listener, most) }()
	for _, header := range []string{"Content-Length: 1", "Content-Length: 1000000", "Transfer-Encoding: chunked", "Content-Length: 1\r\nExpect: 100-continue"} {
		a := dial(t, listener.Addr().String())
		if _, err := io.WriteString(a, "GET / HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(a.answers, nil)
		if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge || !answer.Close {
			t.Errorf("%s: %v, %v", header, answer, err)
		}
	}
	if err := dial(t, listener.Addr().String()).ask("/"); err != nil {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	testkit.Receive(t, served, "end of the server")
}

// TestLateRequest begins a request on a connection that has just made room.
func TestLateRequest(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	full := newLimited(nil, 1)
	c := &conn{Conn: a, of: full}
	c.enter(idle)
	if !full.makeRoom() || c.enter(busy) || full.busy != 0 || len(full.idle) != 0 {
		t.Errorf("a connection that made room begins a request: %d busy, %d idle", full.busy, len(full.idle))
	}
}
