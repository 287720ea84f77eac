package oob

// Conn, and how it moves bytes: a read or write that a context can interrupt,
// Close, and the explanation of what stopped a step. Nothing in this file
// knows a message format; reader.go and exchange.go speak the native one on
// top, and other formats can be built on ReadFull and WriteAll.

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// DefaultTimeout is how long a step may take if neither its context nor the
// Options say otherwise.
const DefaultTimeout = 30 * time.Second

// Options are the choices for a connection; the zero value is a good one.
type Options struct {
	// Timeout limits each step whose context has no deadline of its own: a
	// dial, an exchange, a barrier. 0 means DefaultTimeout, less than 0 no
	// limit. Accept waits without limit for a peer to come.
	Timeout time.Duration

	// Observer, if not nil, gets every native message.
	Observer Observer
}

// Conn is one end of an out-of-band connection. [Dial], [Listener.Accept] and [NewConn]
// make it; it is valid until Close.
//
// The exchanges are to be called one after the other, in the same order as at
// the peer. Close, Fail, Watch, Done and Err may be called at any time, from
// any goroutine. After Close, every method's error matches net.ErrClosed.
//
// The first use decides what the connection carries: the native messages
// (Hello and so on), or raw bytes (ReadFull and WriteAll).
//
// A step fails with a [*TimeoutError]; a [*PeerError], [*ClosedError] or [*ProtocolError]
// once the peer has failed, is gone or breaks the protocol; an error that matches the
// cause of its context's end; or, before anything is sent, because an argument breaks
// the rules of its type. The step is in the text of each.
type Conn struct {
	nc      net.Conn
	timeout time.Duration // Options.Timeout
	peer    string        // the peer's address, for errors and events

	// ctx ends, with the reason as its cause, when the peer is gone, failed or
	// broke the protocol, and when this end is closed.
	ctx context.Context
	end context.CancelCauseFunc

	// writing is a lock, held by who writes, that a context can wait for.
	writing chan struct{}
	cut     bool // guarded by writing: a frame was sent in part, so no other can follow

	failed atomic.Bool // an error message was sent, or is being sent

	mu      sync.Mutex
	carries carriage
	closed  bool
	reader  sync.WaitGroup // the goroutine of readMessages, if any

	incoming meter
	inbox    chan message
	closing  chan struct{} // closed by Close
	silent   chan struct{} // closed when no message will follow those in the inbox
	readErr  error         // why; set before silent is closed, nil after Close

	observing sync.Mutex // the observer is called by one goroutine at a time
	observer  Observer   // guarded by observing
}

// carriage is what a connection has been used for so far.
type carriage int

const (
	carriesNothing carriage = iota
	carriesMessages
	carriesRaw
)

// NewConn makes a Conn of any connection, such as one end of a net.Pipe. The
// Conn owns nc from here on. Nothing is read before the first use.
func NewConn(nc net.Conn, opts Options) *Conn {
	peer := "(no address)"
	if addr := nc.RemoteAddr(); addr != nil {
		peer = addr.String()
	}
	c := &Conn{
		nc:       nc,
		timeout:  opts.Timeout,
		peer:     peer,
		writing:  make(chan struct{}, 1),
		inbox:    make(chan message, inboxSize),
		closing:  make(chan struct{}),
		silent:   make(chan struct{}),
		incoming: meter{r: nc},
		observer: opts.Observer,
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c
}

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Close ends the connection and wakes whoever waits on it. When it returns,
// the Conn has no goroutine, and no longer calls its Observer. Closing again
// does nothing and returns nil.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.reader.Wait()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	c.end(net.ErrClosed)
	close(c.closing)
	err := c.nc.Close()
	c.reader.Wait()
	return errors.WithMessagef(err, "oob: closing the connection to %s", c.peer)
}

// ReadFull fills buf with raw bytes from the peer, for formats other than the
// native one; step names the wait in errors. It returns how many bytes came.
// A connection that carries messages cannot be read in this way.
func (c *Conn) ReadFull(ctx context.Context, step string, buf []byte) (int, error) {
	if err := c.claim(carriesRaw); err != nil {
		return 0, stepError(opWaiting, step, err)
	}
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	began := time.Now()
	c.incoming.expect(step, 0, len(buf))
	var n int
	err := interruptible(ctx, c.nc.SetReadDeadline, func() (err error) {
		n, err = io.ReadFull(&c.incoming, buf)
		return err
	})
	if err != nil {
		return n, c.explain(ctx, opWaiting, step, began, c.incoming.explain(c.peer, err))
	}
	c.incoming.done(step)
	return n, nil
}

// AwaitFirst waits until the peer has said something, for formats other than the
// native one, and reads none of it; step names the wait in errors.
func (c *Conn) AwaitFirst(ctx context.Context, step string) error {
	if err := c.claim(carriesRaw); err != nil {
		return stepError(opWaiting, step, err)
	}
	socket, ok := c.nc.(syscall.Conn)
	if !ok {
		return nil // a net.Pipe in a test
	}
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	began := time.Now()
	err := interruptible(ctx, c.nc.SetReadDeadline, func() error { return peek(socket) })
	if err != nil {
		return c.explain(ctx, opWaiting, step, began, c.incoming.explain(c.peer, err))
	}
	return nil
}

// WriteAll sends raw bytes in one Write, for formats other than the native
// one; step names them in errors. A connection that carries messages cannot
// be written in this way.
func (c *Conn) WriteAll(ctx context.Context, step string, data []byte) error {
	if err := c.claim(carriesRaw); err != nil {
		return stepError(opSending, step, err)
	}
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	began := time.Now()
	if err := c.write(ctx, data); err != nil {
		return c.explain(ctx, opSending, step, began, err)
	}
	return nil
}

// claim settles what the connection carries, and starts the reader of
// messages if that is what it is.
func (c *Conn) claim(want carriage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.carries == carriesNothing:
		c.carries = want
		if want == carriesMessages {
			c.reader.Go(c.readMessages)
		}
	case c.carries != want:
		return errors.New("a connection carries either messages or raw bytes, not both; use a second one")
	}
	return nil
}

// write sends b in one Write, unless ctx ends before or meanwhile.
func (c *Conn) write(ctx context.Context, b []byte) error {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.cut {
		return errors.New("an earlier message was cut short, so nothing can follow it; close the connection and run both ends again")
	}
	var n int
	err := interruptible(ctx, c.nc.SetWriteDeadline, func() (err error) {
		n, err = c.nc.Write(b)
		return err
	})
	if err != nil {
		c.cut = n > 0
		return &ClosedError{Peer: c.peer, Err: err}
	}
	return nil
}

// interruptible runs op, a read or write that setDeadline governs, and cuts it
// short when ctx ends. It returns only after the deadline is lifted again for
// good, so that a late cancellation cannot hit the next operation.
func interruptible(ctx context.Context, setDeadline func(time.Time) error, op func() error) error {
	lifted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(lifted)
		_ = setDeadline(time.Unix(1, 0)) // long past: whoever waits returns at once
	})
	err := op()
	if !stop() {
		<-lifted
		_ = setDeadline(time.Time{})
	}
	return err
}

// stepContext gives ctx the default timeout if it has no deadline.
func (c *Conn) stepContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return stepContext(ctx, c.timeout)
}

// stepContext gives ctx the limit, which has the meaning of Options.Timeout, if it has
// no deadline.
func stepContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		limit = DefaultTimeout
	}
	if _, has := ctx.Deadline(); has || limit < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

const (
	opWaiting = "waiting for"
	opSending = "sending"
)

// explain finds why a step did not come to its end, the strongest reason
// first: this end closed, the peer ended it, the context did, or else err.
func (c *Conn) explain(ctx context.Context, op, step string, began time.Time, err error) error {
	switch {
	case c.isClosed():
		err = net.ErrClosed
	case c.ctx.Err() != nil:
		err = c.reason()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		timeout := &TimeoutError{Op: op, Step: step, Peer: c.peer, After: time.Since(began).Round(time.Millisecond)}
		what, got, want, last := c.incoming.state()
		timeout.Last = last
		if op == opWaiting {
			timeout.What, timeout.Got, timeout.Want = what, got, want
		}
		return timeout
	case ctx.Err() != nil:
		err = &canceledError{ctx.Err(), context.Cause(ctx)}
	}
	return stepError(op, step, err)
}

// reason returns why the connection ended. A failure that the reader found behind the
// last message, such as the peer's own, says more than a hang-up noticed before. A plain
// end of the stream says less: noticing the hang-up took the errno from the socket.
func (c *Conn) reason() error {
	select {
	case <-c.silent:
		if c.readErr != nil && !errors.Is(c.readErr, io.EOF) {
			return c.readErr
		}
	default:
	}
	return context.Cause(c.ctx)
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func stepError(op, step string, err error) error {
	if errors.Is(err, net.ErrClosed) {
		err = errors.WithMessage(net.ErrClosed, "this end closed the connection")
	}
	return errors.WithMessagef(err, "oob: %s %s", op, step)
}
