package oob

// The receiving side of the native protocol. One goroutine per Conn reads messages:
//
//	 1. It looks at four bytes, which must be the magic. If the first four bytes of the
//	    connection are not, it guesses the peer's program (wrongpeer.go).
//	 2. It reads the rest of the header and checks it.
//	 3. It reads the body and decodes it.
//	 4. An error message ends the connection. Any other message goes to the inbox, where
//	    the exchanges take it.
//
// The goroutine reads all the time, so it notices at once that the peer closed, even
// while the program waits for RDMA. It stops while the inbox is full, so a peer can make
// it hold at most inboxSize+1 bodies. TCP then slows the peer down, and hangup.go watches
// for the end of the connection.

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// inboxSize is the number of messages that the peer may be ahead of this side's calls.
const inboxSize = 16

// message is one received message, decoded.
type message struct {
	Type  MessageType
	Name  string // name of a barrier or note
	Size  int    // bytes of the frame
	Value any    // Hello, []Endpoint, []Region, string (barrier) or Note
}

func (m message) String() string {
	if m.Name == "" {
		return m.Type.String()
	}
	return stepName(m.Type, m.Name)
}

func (c *Conn) readMessages() {
	defer close(c.silent)
	// A foreign peer may reset the connection, and then what it wrote can no longer be read.
	c.incoming.r = bufio.NewReaderSize(c.nc, quoteSize)
	for first := true; ; first = false {
		m, err := c.readMessage(first)
		if err != nil {
			c.readErr = err
			c.end(err)
			return
		}
		if m.Type == TypeBarrier {
			c.reached(m.Name)
		}
		if !c.deliver(m) {
			return
		}
	}
}

// OnBarrier registers f to be called once, when the peer has reached the barrier called name.
// The peer may reach it long before this end. The goroutine that reads calls f. If name is the
// barrier that the peer reached last, OnBarrier calls f itself. A later OnBarrier replaces f. f
// must not block.
func (c *Conn) OnBarrier(name string, f func()) {
	c.mu.Lock()
	c.awaited, c.onBarrier = name, f
	at := c.lastBarrier
	c.mu.Unlock()
	if at == name {
		c.reached(name)
	}
}

// reached notes that the peer is at a barrier.
func (c *Conn) reached(name string) {
	c.mu.Lock()
	c.lastBarrier = name
	var f func()
	if name == c.awaited {
		f, c.onBarrier = c.onBarrier, nil
	}
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// deliver puts a message into the inbox. It waits while the inbox is full. It returns
// false after Close.
func (c *Conn) deliver(m message) bool {
	select {
	case c.inbox <- m:
		return true
	default:
	}
	stop := c.watchHangup()
	defer stop()
	select {
	case c.inbox <- m:
		return true
	case <-c.closing:
		return false
	}
}

// readMessage reads one frame. Its error ends the connection.
func (c *Conn) readMessage(first bool) (message, error) {
	var frame [HeaderSize]byte
	c.incoming.expect("a message header", 0, HeaderSize)
	if err := c.fill(frame[:len(magic)]); err != nil {
		return message{}, err
	}
	if first && string(frame[:len(magic)]) != magic {
		return message{}, c.foreign(frame[:len(magic)])
	}
	if err := c.fill(frame[len(magic):]); err != nil {
		return message{}, err
	}
	h, err := decodeHeader(frame[:])
	if err != nil {
		return message{}, c.blame(err)
	}
	body := make([]byte, h.Length)
	c.incoming.expect(article(h.Type)+" message", HeaderSize, HeaderSize+h.Length)
	if err := c.fill(body); err != nil {
		return message{}, err
	}
	m, err := decodeMessage(h, body)
	if err != nil {
		return message{}, c.blame(err)
	}
	c.incoming.done("its " + m.String())
	c.observe(time.Now(), false, m)
	if e, failed := m.Value.(*PeerError); failed {
		e.Peer = c.peer
		return message{}, e
	}
	return m, nil
}

// fill reads len(buf) bytes. Its error names how many bytes of the message arrived.
func (c *Conn) fill(buf []byte) error {
	if _, err := io.ReadFull(&c.incoming, buf); err != nil {
		return c.incoming.explain(c.peer, err)
	}
	return nil
}

// blame sets the peer's address in a ProtocolError.
func (c *Conn) blame(err error) error {
	var e *ProtocolError
	if errors.As(err, &e) {
		e.Peer = c.peer
	}
	return err
}

func decodeMessage(h header, body []byte) (message, error) {
	m := message{Type: h.Type, Size: HeaderSize + len(body)}
	c := cursor{rest: body}
	var broken error // the rule that the value breaks
	switch h.Type {
	case TypeHello:
		v := c.hello()
		m.Value, broken = v, v.check()
	case TypeEndpoints:
		v := c.endpoints()
		m.Value, broken = v, checkEndpoints(v)
	case TypeRegions:
		v := c.regions()
		m.Value, broken = v, checkRegions(v)
	case TypeBarrier:
		m.Name = c.text()
		m.Value, broken = m.Name, checkText("name", m.Name, 1, MaxName)
	case TypeNote:
		v := c.note()
		m.Name, m.Value, broken = v.Name, v, v.check()
	case TypeError:
		v := c.peerError()
		m.Name, m.Value = v.Step, v
		broken = cmp.Or(checkText("step", v.Step, 0, MaxName), checkText("message", v.Message, 0, MaxErrorText))
	}
	if err := cmp.Or(c.end(), broken); err != nil {
		return message{}, malformed(h.Type, err)
	}
	return m, nil
}

// Done returns a channel that is closed when the connection ends. The connection ends
// when the peer closes, exits, fails or breaks the protocol, and when this side calls
// Close. Messages that arrived before can still be received. The Conn starts to read at
// the first exchange or Watch; before that it does not notice that the peer closed.
//
// The Conn stops reading while the peer is 16 messages ahead of this side's calls. On
// Linux it notices the end even then, if the TCP receive buffer holds all that the peer
// sent before. On other systems, and on connections that are not sockets, it notices the
// end after these messages have been received.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the connection ended: a [*PeerError], [*ClosedError] or
// [*ProtocolError], or an error that matches net.ErrClosed after Close. It returns nil
// before the end.
func (c *Conn) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return errors.WithMessage(c.reason(), "oob")
}

// Watch returns a context derived from ctx that is also canceled when the connection
// ends. Its cause is then Err (see context.Cause). Use it to wait for RDMA completions:
// the wait ends at once if the peer exits, not only after the transport's retries. Call
// the returned function when the wait is over.
//
// A peer that is done may close before this side is done. To avoid that, end with a
// barrier and stop watching after it. Watch is for connections that carry messages. On a
// connection that carries raw bytes it notices only Close.
func (c *Conn) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	_ = c.claim(carriesMessages) // may fail: a closed Conn ends the context below, raw bytes stay unread
	watched, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(c.Err()) })
	return watched, func() {
		stop()
		cancel(context.Canceled)
	}
}

// meter counts the bytes of the message that is being read, so that the error of a
// timeout or a lost connection can report them.
type meter struct {
	r io.Reader

	mu        sync.Mutex
	what      string
	got, want int
	last      string // what arrived completely before: "its hello"; "" if nothing
}

// expect records what the next bytes belong to; got of its want bytes have arrived.
func (m *meter) expect(what string, got, want int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.what, m.got, m.want = what, got, want
}

// done records that last has arrived completely.
func (m *meter) done(last string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.what, m.got, m.want, m.last = "", 0, 0, last
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got += n
	return n, err
}

func (m *meter) state() (what string, got, want int, last string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.what, m.got, m.want, m.last
}

// explain turns the error of a read into a ClosedError.
func (m *meter) explain(peer string, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return net.ErrClosed // this side called Close
	}
	if errors.Is(err, io.EOF) && m.got > 0 {
		err = io.ErrUnexpectedEOF
	}
	return &ClosedError{Peer: peer, What: m.what, Got: m.got, Want: m.want, First: m.last == "", Err: err}
}

// article returns the type's name with its article: "an endpoints", "a hello".
func article(t MessageType) string {
	switch t {
	case TypeEndpoints, TypeError:
		return "an " + t.String()
	}
	return "a " + t.String()
}
