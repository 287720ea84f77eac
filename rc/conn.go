// A connected endpoint: its objects, waiting for completions, and its end.

package rc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/serial"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// Conn is a connection in RTS. QP, SendCQ and RecvCQ are there for what it does not
// wrap. [Dial] and [Incoming.Connect] make it; it and all of its objects, the regions of
// AllocMR and RegMR among them, are valid until Close. The regions' memory may be used
// after it ([verbs.MR.Bytes]), so that Close may meet a goroutine that reads it.
//
// Its methods may be called by several goroutines at once, but for those that talk over
// TCP (Barrier, SendNote, RecvNote, Finish), which one goroutine calls at a time, in
// the peer's order. [Config].Prepare is given a Conn in INIT, for memory and receives: the
// peer's side of it is not known yet, and nothing can be sent.
type Conn struct {
	resources // the server's but for the list, if there is a server
	tcp       *oob.Conn
	server    *Server // nil: the resources are the Conn's own

	ethernet bool
	gid      verbs.GIDEntry
	sends    *dispatch.Route // of sendCQ
	recvs    *dispatch.Route // of recvCQ: the same if that is
	pairs    []*queuePair
	windows  windows // by which regions are shared, if the server does so

	peerRegions []oob.Region
	peerHello   oob.Hello

	ctx        context.Context // ends, with the cause, when the peer or the device is gone, and in Close
	cancel     context.CancelCauseFunc
	recvCtx    context.Context // ends with ctx, and with io.EOF when the peer is at the barrier "done"
	endRecvs   context.CancelCauseFunc
	flushing   atomic.Bool // by Disconnect: receives complete although the peer is at "done"
	stopEvents func()      // of the device
	stopTCP    func()      // watching the peer

	results       atomic.Pointer[verbs.MR] // of atomics; nil before the first
	makingResults sync.Mutex

	logging serial.Queue // records of the device's events, which its callback must not wait for

	mu         sync.Mutex
	connecting bool           // Dial or Connect has yet to return
	stalled    chan struct{}  // closed when the call is over during which connecting ended; nil without one
	closing    bool           // Close has begun: no new object, no new wait
	calls      sync.WaitGroup // under way, which Close waits for
	regions    []oob.Region   // shared by this end
	shareErr   error          // of the first region that could not be
	finished   bool           // both ends met in the barrier "done"
	farewell   func(context.Context, *oob.Conn) error

	moves     sync.Mutex // held while the queue pairs change their state; guards the next four
	triedErr  bool
	moveErr   error        // of moveToErr
	inErr     []*queuePair // those that were moved to ERR to be drained
	recvMarks int          // of their receive queues, behind the last request
	markID    uint64       // of the work requests that end a queue; random, so that the program's own differ

	unwinding sync.Mutex
	unwound   bool // by a first call; a later one frees the objects that refused to close
}

// newConn makes a Conn with nothing but a TCP connection and a context.
func newConn(tcp *oob.Conn, hello oob.Hello, cfg Config, server *Server) *Conn {
	c := &Conn{resources: resources{cfg: cfg, events: events{cfg.Logger}}, tcp: tcp, server: server, peerHello: hello,
		stopEvents: func() {}, stopTCP: func() {}, connecting: true, markID: randomID()}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.recvCtx, c.endRecvs = context.WithCancelCause(c.ctx)
	return c
}

// QP is the queue pair, the first one if there are several. The Conn moves and closes it.
func (c *Conn) QP() *verbs.QP { return c.pairs[0].QP }

// QPs are all queue pairs: each is connected to the peer's at the same index.
func (c *Conn) QPs() []*verbs.QP {
	qps := make([]*verbs.QP, len(c.pairs))
	for i, p := range c.pairs {
		qps[i] = p.QP
	}
	return qps
}

// AH is the way to the peer's UD queue pair at an index, once both know each other;
// nil if the queue pairs are connected.
func (c *Conn) AH(index int) *verbs.AH { return c.pairs[index].ah }

// Context returns a context that ends when the peer or the device is gone, or when Close
// begins; its cause is the reason. The Wait methods watch this context. A program that polls
// the CQs itself has to check it.
func (c *Conn) Context() context.Context { return c.ctx }

// PD is the protection domain of the queue pairs.
func (c *Conn) PD() *verbs.PD { return c.pd }

// Device is the device in use.
func (c *Conn) Device() *verbs.Device { return c.dev }

// LocalEndpoints returns this end's endpoints as the peer knows them, one per queue pair.
func (c *Conn) LocalEndpoints() []oob.Endpoint {
	list := make([]oob.Endpoint, len(c.pairs))
	for i, p := range c.pairs {
		list[i] = p.local
	}
	return list
}

// PeerEndpoints returns the peer's endpoints, one per queue pair.
func (c *Conn) PeerEndpoints() []oob.Endpoint {
	list := make([]oob.Endpoint, len(c.pairs))
	for i, p := range c.pairs {
		list[i] = p.peer
	}
	return list
}

// PeerHello is what the peer said first: its job and parameters.
func (c *Conn) PeerHello() oob.Hello { return c.peerHello }

// TCP returns the connection that the ends talk over: for notes and barriers of the program's own,
// and for an [Exchange]. One goroutine at a time talks over it.
func (c *Conn) TCP() *oob.Conn { return c.tcp }

// PeerRegion is the region that the peer shared under a name; false if it shared
// none of that name.
func (c *Conn) PeerRegion(name string) (oob.Region, bool) {
	for _, r := range c.peerRegions {
		if r.Name == name {
			return r, true
		}
	}
	return oob.Region{}, false
}

// watchDevice ends the Conn's context when the device, or an object of the Conn's, reports
// that it is dead. The Logger may block, so another goroutine calls it.
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

// watchPeer ends the Conn's context when the peer fails or is gone.
func (c *Conn) watchPeer() {
	tcpCtx, stopWatching := c.tcp.Watch(context.Background())
	stopCancel := context.AfterFunc(tcpCtx, func() { c.cancel(notTheEnd(context.Cause(tcpCtx))) })
	c.tcp.OnBarrier(event.LastBarrier, func() { c.endRecvs(io.EOF) })
	c.stopTCP = func() {
		stopCancel()
		stopWatching()
	}
}

// notTheEnd makes a peer that closed without the barrier "done" match io.ErrUnexpectedEOF:
// io.EOF is for those that finished.
func notTheEnd(err error) error {
	if closed := new(oob.ClosedError); errors.As(err, &closed) && closed.Err == io.EOF { //nolint:errorlint // it is not wrapped
		copied := *closed
		copied.Err = io.ErrUnexpectedEOF
		return errors.WithMessage(&copied, "oob")
	}
	return err
}

// begin counts a call that Close must wait for; false once Close has begun.
func (c *Conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.calls.Add(1)
	return true
}

// Finish meets the peer in the barrier "done": after it both may close, and neither takes the
// other's closing for a failure. The peer's WaitRecv returns io.EOF, so wait for the completions
// of what you sent before Finish. From then on nobody watches the peer: waits no longer end when
// it is gone.
func (c *Conn) Finish(ctx context.Context) error {
	if c.cfg.Exchange != nil {
		return nil
	}
	c.stopTCP()
	err := c.tcp.Barrier(ctx, event.LastBarrier)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = c.finished || err == nil
	return err
}

// Fail sends the peer the step and the cause of this end's failure; call Close after it. The
// peer's waits end with an *oob.PeerError. Fail takes a second at most.
func (c *Conn) Fail(step string, cause error) {
	if c.cfg.Exchange == nil {
		c.tcp.Fail(step, cause)
	}
}
