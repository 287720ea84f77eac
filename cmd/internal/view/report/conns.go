// The connections of an HTTP server. Their number has a limit, because they could use up the files that rdma_server may
// open. Those that wait for a request make room for new ones, so idle clients do not keep others out.

package report

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// ServeHTTP serves a listener with at most most connections at a time. A new one replaces the one that has waited for
// a request the longest. If all have a request in progress, it waits. Requests with a body are refused.
func ServeHTTP(s *http.Server, l net.Listener, most int) error {
	return serveLimited(s, newLimited(l, most))
}

func serveLimited(s *http.Server, l *limited) error {
	handler := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			refuseBody(w)
			return
		}
		if r.Context().Value(connKey{}).(*conn).enter(busy) { //nolint:forcetypeassert // Accept makes all of them
			handler.ServeHTTP(w, r)
		}
	})
	s.ConnState = func(c net.Conn, now http.ConnState) {
		if now == http.StateIdle { // the response has left
			c.(*conn).enter(idle) //nolint:forcetypeassert // as above
		}
	}
	return s.Serve(l)
}

// refuseBody refuses a request with a body, and does not wait for the body, which may never come. The connection
// still makes room for others.
func refuseBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // otherwise net/http reads the body first
	w.Header().Set("Connection", "close")
	http.Error(w, "this server reads no bodies; try: GET", http.StatusRequestEntityTooLarge)
}

type connKey struct{}

// writeBuffer is how many bytes of an answer the system keeps, twice. It is plenty for the pages.
const writeBuffer = 64 << 10

// limited is a listener with a limit for its connections.
type limited struct {
	net.Listener
	most int

	mu     sync.Mutex
	room   *sync.Cond // a connection has left, or waits for a request
	idle   []*conn    // the one that has waited the longest first
	busy   int        // connections with a request in progress
	closed bool
}

func newLimited(l net.Listener, most int) *limited {
	full := &limited{Listener: l, most: most}
	full.room = sync.NewCond(&full.mu)
	return full
}

func (l *limited) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(writeBuffer) // by default, the system keeps megabytes for a peer that does not read
	}
	c := &conn{Conn: accepted, of: l}
	if !l.makeRoom() {
		_ = accepted.Close()
		return nil, net.ErrClosed
	}
	c.enter(idle)
	return c, nil
}

// makeRoom closes a connection if there are too many. It returns false if the listener is closed.
func (l *limited) makeRoom() bool {
	l.mu.Lock()
	for l.busy == l.most && !l.closed {
		l.room.Wait()
	}
	var oldest *conn
	if l.busy+len(l.idle) == l.most {
		oldest = l.idle[0]
		oldest.leave()
		oldest.state = gone // a request that begins now is too late
	}
	closed := l.closed
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close()
	}
	return !closed
}

func (l *limited) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.room.Broadcast()
	return l.Listener.Close()
}

// conn is a connection of a limited listener.
type conn struct {
	net.Conn
	of    *limited
	state connState // under of.mu
}

type connState int

const (
	fresh connState = iota
	idle            // it waits for a request
	busy
	gone
)

// enter changes the state. It returns false if the connection is gone.
func (c *conn) enter(now connState) bool {
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state == gone {
		return false
	}
	c.leave()
	switch c.state = now; now {
	case idle:
		l.idle = append(l.idle, c)
	case busy:
		l.busy++
	}
	l.room.Signal()
	return true
}

// leave ends the present state. The lock is held.
func (c *conn) leave() {
	switch c.state {
	case idle:
		c.of.idle = slices.DeleteFunc(c.of.idle, func(other *conn) bool { return other == c })
	case busy:
		c.of.busy--
	}
}

func (c *conn) Close() error {
	c.enter(gone)
	return c.Conn.Close()
}
