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
	"runtime"
	"slices"
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
	c.Job("send")
	const events = 300
	var late *stream
	for i := range events {
		if i == events/2 {
			late = open(t, url)
		}
		log.Info(fmt.Sprint(i))
	}
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
	begin := func(who string) *Client {
		c := l.Begin(who, "")
		c.Job("send")
		return c
	}
	running := begin("running")
	var done []*Client
	for i := range keptClients {
		done = append(done, begin(fmt.Sprint(i)))
	}
	refused := begin("refused")
	s := open(t, url)
	for range len(done) + 2 {
		if m, more := s.next(t); !more || !m.Begin {
			t.Fatalf("%+v, %v", m, more)
		}
	}
	for _, c := range done {
		c.End(nil)
	}
	for i := range 3 {
		begin(fmt.Sprint("more ", i)).End(nil)
	}
	refused.Remove()
	l.Begin("stranger", "").Remove()
	if len(l.clients) != keptClients+1 || l.clients[0] != running || l.clients[1].who != "3" {
		t.Errorf("%d clients, the second is %s", len(l.clients), l.clients[1].who)
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
		if m.Who == "stranger" {
			t.Error("a page hears of a client without a job")
		}
	}
	slices.Sort(gone)
	if fmt.Sprint(gone) != "[0 1 2 refused]" {
		t.Errorf("gone: %v", gone)
	}
}

// A full Live shows no client more, unless the job of one is over.
func TestLiveIsFull(t *testing.T) {
	l := NewLive("soft0")
	var all []*Client
	for i := range maxClients + 1 {
		c := l.Begin(fmt.Sprint(i), "")
		c.Job("send")
		all = append(all, c)
	}
	last := all[maxClients]
	if len(l.clients) != maxClients || slices.Contains(l.clients, last) || last.Handler().Enabled(t.Context(), slog.LevelInfo) {
		t.Errorf("%d clients, and one more keeps events", len(l.clients))
	}
	last.End(nil)
	all[3].End(nil)
	next := l.Begin("next", "")
	next.Job("send")
	if len(l.clients) != maxClients || slices.Contains(l.clients, all[3]) || l.clients[maxClients-1] != next {
		t.Errorf("%d clients, and a client that is done keeps its place", len(l.clients))
	}
}

// Pages that never read, beside clients that come and go, cost a limited amount of memory.
func TestPagesThatDoNotRead(t *testing.T) {
	l, url := serveLive(t)
	before := testkit.Heap()
	text := strings.Repeat("x", 1000)
	begin := func(i int) *Client {
		c := l.Begin(fmt.Sprint(i), "10.0.0.2:7")
		c.Job("send")
		return c
	}
	for i := range maxClients {
		log := slog.New(begin(i).Handler())
		for range 2 * keptPerClient / len(text) {
			log.Info(text)
		}
	}
	for range maxPages {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Write([]byte("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "all pages", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.pages == maxPages
	})
	for i := range 20_000 {
		if c := begin(maxClients + i); i%2 == 0 {
			c.End(errors.New(text))
		} else {
			c.Remove()
		}
	}
	if grown := testkit.Heap() - before; grown > Memory {
		t.Errorf("%d bytes more, want at most %d", grown, Memory)
	} else {
		t.Logf("%d KiB more, of at most %d", grown>>10, Memory>>10)
	}
	runtime.KeepAlive(l)
}

// A page that takes its time gets what is kept, and how many events are not.
func TestSlowPage(t *testing.T) {
	l := NewLive("soft0")
	c := l.Begin("server/1", "")
	c.Job("send")
	p := l.watch()
	defer p.stop()
	text, logged, got, left := strings.Repeat("x", 1000), 0, 0, 0
	log := slog.New(c.Handler())
	for _, more := range []int{10, 3 * keptPerClient / len(text), 1, 3 * keptPerClient / len(text)} {
		for range more {
			log.Info(fmt.Sprint(logged) + text)
			logged++
		}
		p.news(true, func(n *news) bool {
			for _, line := range n.Events {
				var e struct {
					Msg   string
					Attrs struct{ Dropped int }
				}
				if err := json.Unmarshal(line, &e); err != nil {
					t.Fatal(err)
				}
				left += e.Attrs.Dropped
				if e.Attrs.Dropped == 0 {
					if e.Msg != fmt.Sprint(got+left)+text {
						t.Fatalf("after %d events and %d left out comes %.10s", got, left, e.Msg)
					}
					got++
				}
			}
			return true
		})
		if got+left != logged {
			t.Errorf("%d events and %d left out of %d", got, left, logged)
		}
	}
	if left == 0 || got*len(text) < keptPerClient {
		t.Errorf("%d events, %d left out", got, left)
	}
	if !p.news(true, func(*news) bool { return false }) {
		t.Error("there are news without a change")
	}
}

func TestLiveLimitsPages(t *testing.T) {
	l, url := serveLive(t)
	for range maxPages {
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
	if l.pages != maxPages {
		t.Errorf("%d pages", l.pages)
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
		return l.pages == 0
	})
}
