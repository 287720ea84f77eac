// A connected endpoint and its objects.

package rc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/sync/serial"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// Conn is a connection in RTS. [Dial], [Incoming.Connect] and [Server.Serve] make it. The Conn and
// its objects are valid until Close; MR.Bytes stays valid. In Config.Prepare the Conn is in INIT:
// it can register and share memory and post receives.
//
// All methods may be called by several goroutines at once, except Finish and the exchanges over TCP:
// one goroutine at a time calls these, in the same order as the peer.
type Conn struct {
	resources // with a server: the server's objects, but the Conn's own list owned
	tcp       *oob.Conn
	server    *Server // nil: the Conn has resources of its own
	accepted  bool    // the peer connected to a listener

	ethernet bool
	gid      verbs.GIDEntry
	sends    *dispatch.Route // of sendCQ
	recvs    *dispatch.Route // of recvCQ; with one CQ both are one route
	pairs    []*queuePair
	binds    []verbs.MWBind // of windows that share regions; used only by Prepare's goroutine and while connecting

	peerRegions []oob.Region
	peerHello   oob.Hello

	ctx        context.Context // ends when the peer or the device is gone, and in Close
	cancel     context.CancelCauseFunc
	recvCtx    context.Context // ends with ctx, and with io.EOF when the peer is at the barrier "done"
	endRecvs   context.CancelCauseFunc
	flushing   atomic.Bool // set by Disconnect: receives complete although the peer is at "done"
	stopEvents func()      // of the device
	stopTCP    func()      // watching the peer

	results       atomic.Pointer[verbs.MR] // of atomics; nil before the first atomic
	makingResults sync.Mutex

	logging serial.Queue // records of asynchronous events; the device's callback must not wait for the Logger

	mu         sync.Mutex
	connecting bool           // Dial or Connect has not returned yet
	stalled    chan struct{}  // closed when the kernel's call that outlived the connecting is over; nil if there is no such call
	onThread   bool           // the context of Dial or Connect cannot end, so its calls stay on the caller's thread
	closing    bool           // Close has begun: no new object, no new wait
	calls      sync.WaitGroup // calls in progress, which Close waits for
	regions    []oob.Region   // shared by this end
	shareErr   error          // of the first region that cannot be shared
	finished   bool           // both ends met in the barrier "done"
	farewell   func(context.Context, *oob.Conn) error

	moves    sync.Mutex // held while the queue pairs change their state; guards the next three
	triedErr bool
	moveErr  error        // of moveToErr
	inErr    []*queuePair // moved to ERR, to be drained
	markID   uint64       // ID of the marks; random, to differ from the program's IDs

	unwinding sync.Mutex
	unwound   bool // unwind has run once; a later call frees the objects that refused to close
}

// newConn makes a Conn that has only a TCP connection and a context.
func newConn(tcp *oob.Conn, hello oob.Hello, cfg Config, server *Server) *Conn {
	c := &Conn{resources: resources{cfg: cfg, conns: 1, events: newEvents(cfg.Logger)}, tcp: tcp, server: server, peerHello: hello,
		stopEvents: func() {}, stopTCP: func() {}, connecting: true, markID: randomID()}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.recvCtx, c.endRecvs = context.WithCancelCause(c.ctx)
	return c
}

// QP returns the first queue pair. The Conn moves and closes it.
func (c *Conn) QP() *verbs.QP { return c.pairs[0].QP }

// QPs returns all queue pairs, each connected to the peer's of the same index.
func (c *Conn) QPs() []*verbs.QP {
	return ofEach(c.pairs, func(p *queuePair) *verbs.QP { return p.QP })
}

func ofEach[T any](pairs []*queuePair, of func(*queuePair) T) []T {
	list := make([]T, len(pairs))
	for i, p := range pairs {
		list[i] = of(p)
	}
	return list
}

// AH returns the address of a UD queue pair of the peer; nil in Prepare and for RC and UC.
func (c *Conn) AH(index int) *verbs.AH { return c.pairs[index].ah }

// Context returns a context that ends, and ends all waits, when the peer or the device is gone or
// Close begins. Its cause is the reason.
func (c *Conn) Context() context.Context { return c.ctx }

// PD returns the protection domain of the queue pairs.
func (c *Conn) PD() *verbs.PD { return c.pd }

// Device returns the device in use.
func (c *Conn) Device() *verbs.Device { return c.dev }

// LocalEndpoints returns this end's endpoints, as the peer gets them.
func (c *Conn) LocalEndpoints() []oob.Endpoint {
	return ofEach(c.pairs, func(p *queuePair) oob.Endpoint { return p.local })
}

// PeerEndpoints returns the endpoints of the peer's queue pairs.
func (c *Conn) PeerEndpoints() []oob.Endpoint {
	return ofEach(c.pairs, func(p *queuePair) oob.Endpoint { return p.peer })
}

// PeerHello returns the peer's first message: its job and parameters.
func (c *Conn) PeerHello() oob.Hello { return c.peerHello }

// TCP returns the TCP connection, for an [Exchange], notes, barriers and Fail.
func (c *Conn) TCP() *oob.Conn { return c.tcp }

// PeerRegion returns the region that the peer shared under a name, if any.
func (c *Conn) PeerRegion(name string) (oob.Region, bool) {
	for _, r := range c.peerRegions {
		if r.Name == name {
			return r, true
		}
	}
	return oob.Region{}, false
}

// watchDevice ends the Conn's context after a fatal event of the device or of an object of the
// Conn. The Logger may block, so another goroutine calls it.
func (c *Conn) watchDevice() {
	c.stopEvents = c.dev.Subscribe(func(e verbs.AsyncEvent) {
		if !c.concerns(e, c.owns) {
			return
		}
		c.logging.Do(func() { c.events.async(e) })
		if e.Fatal() {
			c.cancel(&AsyncError{Device: c.dev.Name(), Event: e})
		}
	})
}

// watchPeer ends the Conn's context when the peer fails or is gone. Until drainQuiet later waits still
// return completions: a NAK that explains the peer's failure may be on its way.
func (c *Conn) watchPeer() {
	tcpCtx, stopWatching := c.tcp.Watch(context.Background())
	stopCancel := context.AfterFunc(tcpCtx, func() {
		select {
		case <-time.After(drainQuiet):
		case <-c.ctx.Done():
		}
		c.cancel(notTheEnd(context.Cause(tcpCtx)))
	})
	c.tcp.OnBarrier(event.LastBarrier, func() { c.endRecvs(io.EOF) })
	c.stopTCP = func() {
		stopCancel()
		stopWatching()
	}
}

// notTheEnd replaces io.EOF by io.ErrUnexpectedEOF if the peer closed without the barrier "done".
func notTheEnd(err error) error {
	if closed := new(oob.ClosedError); errors.As(err, &closed) && closed.Err == io.EOF { //nolint:errorlint // it is not wrapped
		copied := *closed
		copied.Err = io.ErrUnexpectedEOF
		return errors.WithMessage(&copied, "oob")
	}
	return err
}

// begin counts a call that Close waits for. It returns false after Close has begun.
func (c *Conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.calls.Add(1)
	return true
}

// Finish meets the peer in the barrier "done", after which both may close. Call it when all sends
// have completed: the peer's receive waits then return io.EOF. From then on no wait notices that
// the peer is gone. Finish waits for the peer as long as ctx and the TCP connection live; a fatal event of
// the Conn's objects or its device ends it with an *[AsyncError].
func (c *Conn) Finish(ctx context.Context) error {
	if c.cfg.Exchange != nil {
		return nil
	}
	c.stopTCP()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	err := c.tcp.Barrier(ctx, event.LastBarrier)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = c.finished || err == nil
	return err
}

// fail sends the peer the step and the cause of this end's failure, within a second. A peer with
// another protocol gets nothing.
func (c *Conn) fail(step string, cause error) {
	if c.cfg.Exchange == nil {
		c.tcp.Fail(step, cause)
	}
}
