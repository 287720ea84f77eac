package oob

// The receiving side of the native protocol. One goroutine reads messages:
//
//	 1. four bytes, which must be the magic; if the first four are not, guess
//	    from them and what follows what sort of peer that is
//	 2. the rest of the header, which is judged before anything else is read
//	 3. the body, decoded here
//	 4. an error message ends the connection; any other goes to the
//	    inbox, where the exchanges take it
//
// Because it always reads, the end of the peer is noticed at once, even while
// the program waits for RDMA. It stops reading when the inbox is full, so a
// peer can make it hold inboxSize bodies and one more; TCP then slows the peer,
// and hangup.go looks for its end.

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// inboxSize is how many messages the peer can be ahead of this end's calls.
const inboxSize = 16

// message is one received message, decoded.
type message struct {
	Type  MessageType
	Name  string // of a barrier or note
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
	for first := true; ; first = false {
		m, err := c.readMessage(first)
		if err != nil {
			c.readErr = err
			c.end(err)
			return
		}
		if !c.deliver(m) {
			return
		}
	}
}

// deliver puts a message into the inbox, and waits while that is full; false after Close.
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

// readMessage reads one frame. The error is what the connection ends with.
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
	h, err := DecodeHeader(frame[:])
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

// fill reads len(buf) bytes; its error says how far the message came.
func (c *Conn) fill(buf []byte) error {
	if _, err := io.ReadFull(&c.incoming, buf); err != nil {
		return c.incoming.explain(c.peer, err)
	}
	return nil
}

// blame writes the peer's address into a ProtocolError.
func (c *Conn) blame(err error) error {
	var e *ProtocolError
	if errors.As(err, &e) {
		e.Peer = c.peer
	}
	return err
}

func decodeMessage(h Header, body []byte) (message, error) {
	m := message{Type: h.Type, Size: HeaderSize + len(body)}
	var err error
	switch h.Type {
	case TypeHello:
		m.Value, err = decodeHello(body)
	case TypeEndpoints:
		m.Value, err = decodeEndpoints(body)
	case TypeRegions:
		m.Value, err = decodeRegions(body)
	case TypeBarrier:
		m.Name, err = decodeBarrier(body)
		m.Value = m.Name
	case TypeNote:
		var n Note
		n, err = decodeNote(body)
		m.Name, m.Value = n.Name, n
	case TypeError:
		var e *PeerError
		if e, err = decodeError(body); err == nil {
			m.Name, m.Value = e.Step, e
		}
	}
	if err != nil {
		return message{}, malformed(h.Type, err)
	}
	return m, nil
}

// Done is closed when the connection ends: the peer closed, died,
// failed or broke the protocol, or this end called Close. Messages that came
// before can still be received. Reading starts with the first exchange or
// Watch; before that the peer's end goes unnoticed.
//
// Reading pauses while the peer is 16 messages ahead of this end's calls. On Linux the
// peer's end is then noticed too, if this end's TCP buffer holds all that was sent
// before it; elsewhere, and on connections that are not sockets, it is noticed when
// the messages are received.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the connection ended: a [*PeerError], [*ClosedError] or
// [*ProtocolError], or net.ErrClosed after Close. It is nil before that.
func (c *Conn) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return errors.WithMessage(c.reason(), "oob")
}

// Watch derives a context which is also cancelled when the connection
// ends, with Err as its cause (see context.Cause): wait for RDMA completions
// with it, and a peer that dies is noticed at once instead of after the
// transport's retries. Call the returned function when the wait is over.
//
// A peer which has all it needs may close before this end is done; meet it in
// a last barrier, and stop watching then. Watch is for connections which carry
// messages; on one that carries raw bytes it notices Close alone.
func (c *Conn) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	_ = c.claim(carriesMessages) // a closed Conn ends the context below; raw bytes are not read
	watched, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(c.Err()) })
	return watched, func() {
		stop()
		cancel(context.Canceled)
	}
}

// meter counts what arrives of the message now being read, so that a timeout
// or a lost connection can say how far it came.
type meter struct {
	r io.Reader

	mu        sync.Mutex
	what      string
	got, want int
	last      string // what arrived whole before: "its hello"; "" if nothing did
}

// expect says what the next bytes belong to, and how many of it are here.
func (m *meter) expect(what string, got, want int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.what, m.got, m.want = what, got, want
}

// done says that something is here whole.
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
		return net.ErrClosed // Close at this end
	}
	if errors.Is(err, io.EOF) && m.got > 0 {
		err = io.ErrUnexpectedEOF
	}
	return &ClosedError{Peer: peer, What: m.what, Got: m.got, Want: m.want, First: m.last == "", Err: err}
}

// article gives the type's name with its article: "an endpoints", "a hello".
func article(t MessageType) string {
	switch t {
	case TypeEndpoints, TypeError:
		return "an " + t.String()
	}
	return "a " + t.String()
}
