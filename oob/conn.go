package oob

// Conn and its byte transfer: reads and writes that a context can interrupt, Close, and
// the errors of a step that did not finish. This file knows no message format.
// reader.go and exchange.go implement the native format. Other formats use ReadFull and
// WriteAll.
//
// # Locks
//
// writing is held during one write. mu guards the state and is never held during I/O.
// observing is held while the Observer runs. No goroutine holds two of them.

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

// DefaultTimeout limits a step if neither its context nor the Options set a limit.
const DefaultTimeout = 30 * time.Second

// Options configures a connection. The zero value uses the defaults.
type Options struct {
	// Timeout limits each step (a dial, an exchange, a barrier) whose context has no
	// deadline. 0 means DefaultTimeout; a negative value means no limit. Accept has
	// no limit.
	Timeout time.Duration

	// Observer, if not nil, is called for every native message.
	Observer Observer
}

// Conn is one side of an out-of-band connection. [Dial], [Listener.Accept] and [NewConn]
// return it; it is valid until Close.
//
// Both sides call the exchange methods in the same order. Exchanges are for one goroutine
// at a time. Close, Fail, Watch, Done and Err may be called at any time, from any
// goroutine. After Close, the error of every method matches net.ErrClosed.
//
// The first use decides what the connection carries: native messages (Hello and so on)
// or raw bytes (ReadFull and WriteAll).
//
// Each exchange is a step. The text of its error names the step. A step returns
//   - a [*TimeoutError] if it took too long,
//   - a [*PeerError] if the peer failed,
//   - a [*ClosedError] if the connection ended,
//   - a [*ProtocolError] if the peer broke the protocol,
//   - an error that matches the cause of its context, if the context was canceled,
//   - another error, before it sends anything, if an argument breaks a rule of its type.
type Conn struct {
	nc      net.Conn
	timeout atomic.Int64 // Options.Timeout
	peer    string       // the peer's address, for errors and events

	// ctx ends when the peer closes, fails or breaks the protocol, and on Close. Its
	// cause is the reason.
	ctx context.Context
	end context.CancelCauseFunc

	// writing is the lock of the writers. It is a channel, so that a context can end
	// the wait for it.
	writing chan struct{}
	cut     bool // guarded by writing: a frame was sent in part, so no frame can follow

	failed atomic.Bool // Fail has sent an error message, or is sending it

	mu      sync.Mutex
	carries carriage
	closed  bool
	reader  sync.WaitGroup // the goroutine of readMessages, if any

	lastBarrier string // that the peer has reached
	awaited     string // the barrier that onBarrier is for
	onBarrier   func() // nil once called

	waiting  atomic.Pointer[time.Time] // since when a call has waited for the peer; nil: none waits
	incoming meter
	inbox    chan message
	closing  chan struct{} // closed by Close
	silent   chan struct{} // closed when no message will be added to the inbox
	readErr  error         // why silent is closed; set before that, nil after Close

	observing sync.Mutex // one goroutine at a time calls the observer
	observer  Observer   // guarded by observing
}

// carriage is the kind of data that a connection carries: undecided, messages or raw.
type carriage int

const (
	carriesNothing carriage = iota
	carriesMessages
	carriesRaw
)

// NewConn returns a Conn over nc, such as one side of a net.Pipe. The Conn owns nc. It
// reads nothing before its first use.
func NewConn(nc net.Conn, opts Options) *Conn {
	peer := "(no address)"
	if addr := nc.RemoteAddr(); addr != nil {
		peer = addr.String()
	}
	c := &Conn{
		nc:       nc,
		peer:     peer,
		writing:  make(chan struct{}, 1),
		inbox:    make(chan message, inboxSize),
		closing:  make(chan struct{}),
		silent:   make(chan struct{}),
		incoming: meter{r: nc},
		observer: opts.Observer,
	}
	c.SetTimeout(opts.Timeout)
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c
}

// Wrap replaces the connection by the one that f returns, such as a [tls.Conn] over it. Call
// Wrap before the first use; both sides must agree on it. f gets a context that ends after
// Options.Timeout. Its error, or the end of ctx, ends the connection.
func (c *Conn) Wrap(ctx context.Context, f func(context.Context, net.Conn) (net.Conn, error)) error {
	const step = "the handshake"
	c.mu.Lock()
	used := c.closed || c.carries != carriesNothing
	c.mu.Unlock()
	if used {
		return stepError(opWaiting, step, errors.New("the connection has been used; call Wrap before"))
	}
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	began := time.Now()
	nc, err := f(ctx, c.nc)
	if err != nil {
		return c.explain(ctx, opWaiting, step, began, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nc, c.incoming = nc, meter{r: nc}
	return nil
}

// LocalAddr returns the address of this side.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Close closes the connection and wakes all calls that wait on it. When Close returns,
// the Conn has no goroutine and no longer calls its Observer. Later calls do nothing and
// return nil.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.reader.Wait()
		return nil
	}
	c.closed = true
	nc := c.nc
	c.mu.Unlock()

	c.end(net.ErrClosed)
	close(c.closing)
	err := nc.Close()
	c.reader.Wait()
	return errors.WithMessagef(err, "oob: closing the connection to %s", c.peer)
}

// ReadFull fills buf with raw bytes from the peer and returns the number of bytes read.
// step names the wait in errors. ReadFull is for formats other than the native one. It
// fails on a connection that carries messages.
func (c *Conn) ReadFull(ctx context.Context, step string, buf []byte) (int, error) {
	if err := c.claim(carriesRaw); err != nil {
		return 0, stepError(opWaiting, step, err)
	}
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	began := time.Now()
	c.incoming.expect(step, 0, len(buf))
	c.waiting.Store(&began)
	defer c.waiting.Store(nil)
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

// AwaitFirst waits until raw bytes from the peer can be read. It reads none of them.
// step names the wait in errors. AwaitFirst is for formats other than the native one;
// like ReadFull it fails on a connection that carries messages.
func (c *Conn) AwaitFirst(ctx context.Context, step string) error {
	if err := c.claim(carriesRaw); err != nil {
		return stepError(opWaiting, step, err)
	}
	socket, ok := c.nc.(syscall.Conn)
	if !ok {
		return nil // such as a net.Pipe in a test
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

// Waited returns for how long a call, such as Hello or ReadFull, has waited for what the peer is to
// send next. It returns 0 if no call waits.
func (c *Conn) Waited() time.Duration {
	if began := c.waiting.Load(); began != nil {
		return time.Since(*began)
	}
	return 0
}

// WriteAll sends raw bytes in one Write. step names them in errors. WriteAll is for
// formats other than the native one. It fails on a connection that carries messages.
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

// claim sets what the connection carries. The first claim of messages starts their
// reader. claim fails if the connection carries something else.
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

// write sends b in one Write. It stops when ctx ends.
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

// interruptible runs op and interrupts it when ctx ends. op is a read or write that
// obeys setDeadline. interruptible clears the deadline before it returns, so that a late
// cancellation cannot interrupt the next operation.
func interruptible(ctx context.Context, setDeadline func(time.Time) error, op func() error) error {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = setDeadline(time.Unix(1, 0)) // long past: op returns at once
	})
	err := op()
	if !stop() {
		<-interrupted
		_ = setDeadline(time.Time{})
	}
	return err
}

// stepContext applies the Conn's timeout to ctx unless ctx has a deadline.
func (c *Conn) stepContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return stepContext(ctx, time.Duration(c.timeout.Load()))
}

// SetTimeout sets the limit of later steps: see [Options].Timeout.
func (c *Conn) SetTimeout(limit time.Duration) { c.timeout.Store(int64(limit)) }

// stepContext applies limit to ctx unless ctx has a deadline. limit has the meaning of
// Options.Timeout.
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

// explain returns the error of a step that failed with err. It reports the first of
// these causes: Close on this side, the end of the connection, the end of ctx, err.
func (c *Conn) explain(ctx context.Context, op, step string, began time.Time, err error) error {
	switch {
	case c.isClosed():
		err = net.ErrClosed
	case c.ctx.Err() != nil:
		err = c.reason()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		timeout := &TimeoutError{Op: op, Step: step, Peer: c.peer, After: time.Since(began).Round(time.Millisecond), cause: context.Cause(ctx)}
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

// reason returns why the connection ended. A failure that the reader met after the last
// message, such as a PeerError, explains more than a hang-up that was noticed earlier.
// A plain io.EOF explains less: hangup has already taken the errno from the socket.
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
