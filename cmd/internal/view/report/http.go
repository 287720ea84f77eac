// The page that watches a server, over HTTP.

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// Address returns the TCP address to listen on that a user means. A port alone is one of this host's
// own address 127.0.0.1. open reports whether other hosts reach the address.
func Address(text string) (address string, open bool, err error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil && !strings.Contains(text, ":") {
		host, port, err = "127.0.0.1", text, nil
	}
	switch {
	case err != nil:
		return "", false, errors.Errorf("%q is not an address and a port; try: 8080, or 127.0.0.1:8080", text)
	case host == "":
		return "", false, errors.Errorf("%q has a port and no address; try: %s for browsers on this host, or 0.0.0.0:%s for all hosts", text, port, port)
	case strings.Trim(port, "0123456789") != "" || port == "":
		return "", false, errors.Errorf("the port %q is not a number; try: 8080", port)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", false, errors.Errorf("%q is not an IP address; try: 127.0.0.1:%s", host, port)
	}
	return net.JoinHostPort(host, port), !ip.IsLoopback(), nil
}

const (
	interval   = 100 * time.Millisecond // between two messages to a page
	heartbeat  = 15 * time.Second       // of a page without news, so that a dead one is noticed
	writeLimit = 10 * time.Second       // of a message
	maxConns   = 128
)

// Serve serves the page until ctx ends. If open is false, only requests for an address of this host
// are answered: another name would belong to a page that a browser takes for its own.
func (l *Live) Serve(ctx context.Context, listener net.Listener, open bool) error {
	var page bytes.Buffer
	if _, err := writePage(&page, &data{Live: true, Hints: hints(func(string) bool { return true })}); err != nil {
		_ = listener.Close()
		return err
	}
	server := &http.Server{
		Handler: l.handler(page.Bytes(), open), ReadHeaderTimeout: writeLimit, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns
	defer stop()
	if err := ServeHTTP(server, listener, maxConns); ctx.Err() == nil {
		return errors.WithMessage(err, "serve the page")
	}
	return nil
}

func (l *Live) handler(page []byte, open bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
		_, _ = w.Write(page) // the browser is gone
	})
	mux.HandleFunc("GET /events", l.events)
	if open {
		return mux
	}
	return LocalOnly(mux)
}

// events sends the clients and their events, and then what is new, until the page is gone.
func (l *Live) events(w http.ResponseWriter, r *http.Request) {
	page := l.watch()
	if page == nil {
		http.Error(w, "too many pages watch this server; try: close another one", http.StatusServiceUnavailable)
		return
	}
	defer page.stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	text := bytes.NewBufferString("retry: 1000\n\n")
	var sent, drawn time.Time
	send := func() bool { // a page that does not take a message in time is gone; it connects again and gets all
		sent = time.Now()
		if control.SetWriteDeadline(sent.Add(writeLimit)) != nil {
			return false
		}
		_, err := text.WriteTo(w)
		return err == nil && control.Flush() == nil
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		draw := time.Since(drawn) >= drawEvery
		if draw {
			drawn = time.Now()
		}
		if !page.news(draw, func(n *news) bool { n.write(text); return send() }) {
			return
		}
		if time.Since(sent) >= heartbeat {
			text.WriteString(": here\n\n")
		}
		if text.Len() > 0 && !send() {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// write writes the message as an event of server-sent events.
func (n *news) write(to *bytes.Buffer) {
	head, err := json.Marshal(struct {
		clientState
		Begin bool `json:"begin,omitempty"`
		Gone  bool `json:"gone,omitempty"`
		*drawing
	}{n.clientState, n.Begin, n.Gone, n.Drawing})
	if err != nil { // strings and booleans always become JSON
		return
	}
	to.WriteString("data: ")
	to.Write(head[:len(head)-1])
	if len(n.Events) > 0 {
		to.WriteString(`,"events":[`)
		for i, line := range n.Events {
			if i > 0 {
				to.WriteByte(',')
			}
			to.Write(bytes.TrimSuffix(line, []byte("\n")))
		}
		to.WriteByte(']')
	}
	to.WriteString("}\n\n")
}
