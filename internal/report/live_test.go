package report

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"8080": "127.0.0.1:8080", "0": "127.0.0.1:0", "localhost:80": "127.0.0.1:80", "[::1]:80": "[::1]:80", "127.0.0.2:1": "127.0.0.2:1",
		"0.0.0.0:80": "0.0.0.0:80 open", "10.0.0.1:80": "10.0.0.1:80 open", "[::]:80": "[::]:80 open",
		":80": "0.0.0.0:80 for all hosts", "host:80": "not an IP address", "10.0.0.1": "is not a number", "a:b:c": "not an address and a port", "": "is not a number", "127.0.0.1:": "is not a number",
	} {
		address, open, err := Address(text)
		got := address
		if open {
			got += " open"
		}
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// stream follows a Live as a page does.
type stream struct {
	lines *bufio.Scanner
	stop  func()
}

func open(t *testing.T, url string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s, %v", answer.Status, answer.Header)
	}
	s := &stream{lines: bufio.NewScanner(answer.Body), stop: func() { cancel(); answer.Body.Close() }}
	s.lines.Buffer(nil, 1<<20)
	t.Cleanup(s.stop)
	return s
}

// message is news as a page reads it.
type message struct {
	clientState
	Begin, Gone bool
	Events      []struct{ Msg string }
	drawing
}

// next returns the next message; false at the end of the stream.
func (s *stream) next(t *testing.T) (m message, more bool) {
	t.Helper()
	for s.lines.Scan() {
		if text, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return m, true
		}
	}
	return m, false
}

func serveLive(t *testing.T) (*Live, string) {
	t.Helper()
	l := NewLive("soft0")
	server := httptest.NewServer(l.handler([]byte("page"), false))
	t.Cleanup(server.Close)
	return l, server.URL
}

// Pages that come early and late see all events of a client once, in order.
func TestLiveSendsAllOnce(t *testing.T) {
	l, url := serveLive(t)
	early := open(t, url)
	c := l.Begin("server/1", "10.0.0.2:7")
	log := slog.New(c.Handler())
	const events = 300
	var late *stream
	for i := range events {
		if i == events/2 {
			late = open(t, url)
		}
		log.Info(fmt.Sprint(i))
	}
	c.Job("send")
	c.End(errors.New("it broke"))
	for name, s := range map[string]*stream{"early": early, "late": late} {
		var got []string
		var last message
		for last.State != "failed" || len(got) < events {
			m, more := s.next(t)
			if !more {
				t.Fatalf("%s: the stream ends after %d events", name, len(got))
			}
			if m.State != "" {
				last = m
			}
			for _, e := range m.Events {
				got = append(got, e.Msg)
			}
		}
		for i, text := range got {
			if text != fmt.Sprint(i) {
				t.Fatalf("%s: event %d is %s", name, i, text)
			}
		}
		if last.Job != "send" || last.Error != "it broke" || last.Who != "server/1" || last.Peer != "10.0.0.2:7" {
			t.Errorf("%s: %+v", name, last)
		}
	}
}

// Clients whose jobs are over are forgotten, the oldest first, and pages hear of it.
func TestLiveForgets(t *testing.T) {
	l, url := serveLive(t)
	s := open(t, url)
	running := l.Begin("running", "")
	for i := range keptClients + 3 {
		l.Begin(fmt.Sprint(i), "").End(nil)
	}
	l.Begin("stranger", "").Remove()
	if len(l.clients) != keptClients+1 || l.clients[0] != running || l.clients[1].state.Who != "3" {
		t.Errorf("%d clients, the second is %s", len(l.clients), l.clients[1].state.Who)
	}
	var gone []string
	for len(gone) < 4 {
		m, more := s.next(t)
		if !more {
			t.Fatalf("the stream ends; gone: %v", gone)
		}
		if m.Gone {
			gone = append(gone, m.Who)
		}
	}
	if fmt.Sprint(gone) != "[0 1 2 stranger]" {
		t.Errorf("gone: %v", gone)
	}
}

// A page that reads too slowly costs a limited amount of memory, and delays nobody.
func TestLiveCutsSlowPages(t *testing.T) {
	l := NewLive("soft0")
	c := l.Begin("server/1", "")
	w := l.watch()
	log := slog.New(c.Handler())
	text := strings.Repeat("x", 1000)
	for range 3 * maxPending / len(text) {
		log.Info(text)
	}
	w.mu.Lock()
	size := 0
	for _, n := range w.news {
		for _, line := range n.Events {
			size += len(line)
		}
	}
	w.mu.Unlock()
	if _, behind := w.take(); !behind || size > maxPending || size < maxPending/2 {
		t.Errorf("behind %v with %d bytes", behind, size)
	}
	w.stop()
	if lines, stop := c.keeper.Watch(func([]byte) {}); len(lines)*1000 > keptPerClient {
		t.Errorf("%d lines are kept", len(lines))
	} else {
		stop()
	}
}

func TestLiveLimitsPages(t *testing.T) {
	l, url := serveLive(t)
	for range maxWatchers {
		open(t, url)
	}
	for _, c := range []struct {
		path, host string
		status     int
	}{
		{"/events", "", http.StatusServiceUnavailable}, {"/", "", http.StatusOK}, {"/other", "", http.StatusNotFound},
		{"/", "evil.example:80", http.StatusForbidden}, {"/", "localhost:80", http.StatusOK}, {"/", "[::1]:80", http.StatusOK}, {"/", "10.0.0.1", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s of %q: %s, want %d", c.path, c.host, answer.Status, c.status)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) != maxWatchers {
		t.Errorf("%d pages", len(l.watchers))
	}
}

// Serve ends with its context, also while pages watch.
func TestServeEnds(t *testing.T) {
	l := NewLive("soft0")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx, listener, false) }()
	s := open(t, "http://"+listener.Addr().String())
	cancel()
	if err := testkit.Receive(t, served, "end of the server"); err != nil {
		t.Error(err)
	}
	if _, more := s.next(t); more {
		t.Error("a message after the end")
	}
	testkit.Until(t, "end of the page's watch", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.watchers) == 0
	})
}
