// Connecting: the steps from a TCP connection to queue pairs in RTS. Both ends take them.

package rc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	stderrors "errors"
	"net"
	"net/netip"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// The barriers of every connection, in order. event.LastBarrier is the last one.
const (
	barrierReceives = "receives posted"
	barrierRTS      = "in RTS"
)

// Dial connects to a Listener at "host:port" and returns when the queue pairs of both ends are in
// RTS. ctx limits only the connecting, and Config.Timeout each message of it. The error names the step and the end that failed; it has
// an *oob.AddressError, *oob.PeerError or *verbs.Error. After an error everything is freed. If an object that Prepare left open prevents that, the error
// matches EBUSY: close it, then Prepare's Conn. If ctx ends while the kernel looks for the peer,
// Dial returns within 0.1 s, and the device's Close returns EBUSY until the kernel is done. With a
// ctx that cannot end, the moves stay on the caller's thread and in its network namespace.
func Dial(ctx context.Context, address string, cfg Config) (*Conn, error) {
	if err := cfg.checkUnused(false); err != nil {
		return nil, err
	}
	cfg, ctx = cfg.complete(), stepwise{ctx}
	tcp, err := oob.Dial(ctx, address, cfg.oobOptions())
	if err != nil {
		return nil, err
	}
	if err := wrap(ctx, tcp, cfg.Wrap); err != nil {
		return nil, err
	}
	if err := secure.Dial(ctx, tcp, cfg.TLS, address); err != nil {
		return nil, err
	}
	return dialed(ctx, tcp, cfg)
}

// stepwise is a context that hides its deadline. A deadline would replace the limit that each message has (Config.Timeout).
type stepwise struct{ context.Context }

// Deadline returns no deadline; the context ends nevertheless.
func (stepwise) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// dialed takes the steps after TCP and TLS.
func dialed(ctx context.Context, tcp *oob.Conn, cfg Config) (_ *Conn, err error) {
	var hello oob.Hello
	if cfg.Exchange == nil {
		if hello, err = tcp.Hello(ctx, oob.Hello{Role: oob.RoleClient, Job: cfg.Job, Program: cfg.Program, Params: cfg.Params}); err != nil {
			tcp.Close()
			return nil, errors.WithMessage(secure.Explain(err, "server"), "hello")
		}
	}
	return newConn(tcp, hello, cfg, nil).connect(ctx)
}

// wrap runs Config.Wrap, if there is one. After an error it closes the connection.
func wrap(ctx context.Context, tcp *oob.Conn, w func(context.Context, net.Conn) (net.Conn, error)) error {
	if w == nil {
		return nil
	}
	err := tcp.Wrap(ctx, func(ctx context.Context, below net.Conn) (net.Conn, error) {
		nc, err := w(ctx, below)
		if err == nil && !ipOf(nc.RemoteAddr()).IsValid() {
			nc = addressed{nc, below}
		}
		return nc, err
	})
	if err != nil {
		tcp.Close()
	}
	return err
}

// connect takes a new connection from the hello to RTS.
func (c *Conn) connect(ctx context.Context) (*Conn, error) {
	if err := c.takeSteps(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// takeSteps takes all steps. After an error, or a panic of Prepare or Exchange, it undoes them.
func (c *Conn) takeSteps(ctx context.Context) (err error) {
	var at step
	err = errAborted // unless the steps return
	caller := ctx
	defer func() { err = c.settle(caller, at.name, err) }()
	c.onThread = ctx.Done() == nil
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	for _, at = range c.steps() {
		switch {
		case c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case ctx.Err() != nil:
			return ctxwatch.Err(ctx)
		}
		if err := at.do(ctx); err != nil {
			return err
		}
	}
	if c.cfg.Exchange == nil {
		c.watchPeer()
	}
	return nil
}

// settle ends the connecting. err is the result, at is the last step. After a failure, or if Close
// was called meanwhile, the peer gets the error and everything is freed.
func (c *Conn) settle(ctx context.Context, at string, err error) error {
	c.mu.Lock()
	if err == nil && c.closing {
		err = errClosed
	}
	c.connecting = err != nil
	c.mu.Unlock()
	if err == nil {
		c.tcp.SetTimeout(-1) // TCP has keep-alives, and the program its contexts
		return nil
	}
	step := at
	if errors.Is(context.Cause(ctx), context.Canceled) {
		step = event.Stopped
	}
	c.fail(step, err)
	c.mu.Lock()
	c.connecting = false
	stalled := c.stalled
	c.mu.Unlock()
	err = errors.WithMessage(err, at)
	if stalled != nil {
		var late <-chan time.Time // never, at a server
		if !c.accepted {
			late = time.After(stalledPatience)
		}
		select {
		case <-stalled:
			c.events.silent.Store(false)
		case <-late:
			go c.Close() // Dial has returned, so its error is lost
			return err
		}
	}
	if left := c.Close(); left != nil {
		err = stderrors.Join(err, left)
	}
	return err
}

// stalledPatience is how long a failed Dial waits for a call in the kernel. Connect waits until the
// call is over, because a client keeps its place and its memory in a server until everything is freed.
const stalledPatience = 50 * time.Millisecond

// interruptible runs call and returns when call returns or ctx ends. The kernel cannot be
// interrupted: call goes on without logging, and Close waits for it. A panic of call, such as the
// Logger's, is a panic of interruptible. If the caller's ctx cannot end, call runs on its thread.
func (c *Conn) interruptible(ctx context.Context, call func(context.Context) error) error {
	if c.onThread {
		return call(ctx)
	}
	over := make(chan struct{})
	err := errAborted // unless call returns
	var panicked any
	c.calls.Go(func() {
		defer func() {
			panicked = recover()
			c.mu.Lock()
			left := c.stalled == over
			close(over)
			c.mu.Unlock()
			if left && panicked != nil {
				panic(panicked)
			}
		}()
		err = call(ctx)
	})
	select {
	case <-over:
	case <-ctx.Done():
		if c.leave(over) {
			return ctxwatch.Err(ctx)
		}
	}
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// leave leaves a call to its goroutine. It returns false if the call is over.
func (c *Conn) leave(over chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-over:
		return false
	default:
		c.stalled = over
		c.events.silent.Store(true)
		return true
	}
}

// step is one step of a connection, named in errors.
type step struct {
	name string
	do   func(context.Context) error
}

// steps returns all steps, in order.
func (c *Conn) steps() []step {
	steps := []step{
		{"open resources", c.makeResources},
		{"RESET→INIT", c.toInit},
		{"prepare", c.prepare},
	}
	if c.cfg.Exchange != nil {
		return append(steps, step{"exchange", c.exchangeOther})
	}
	return append(steps, []step{
		{"exchange endpoints", c.exchange},
		{"barrier " + barrierReceives, func(ctx context.Context) error { return c.tcp.Barrier(ctx, barrierReceives) }},
		{"INIT→RTR", c.toRTR},
		{"RTR→RTS", c.toRTS},
		{"bind windows", c.bindWindows},
		{"barrier " + barrierRTS, func(ctx context.Context) error { return c.tcp.Barrier(ctx, barrierRTS) }},
	}...)
}

// makeResources opens the device, unless Config has one, and makes all objects except memory.
func (c *Conn) makeResources(context.Context) error {
	if err := c.openDevice(); err != nil {
		return err
	}
	found, err := c.cfg.inspect(c.dev, 1)
	if err != nil {
		return err
	}
	c.ethernet = found.port.LinkLayer == verbs.LinkEthernet
	if err := c.chooseGID(found.gids); err != nil {
		return err
	}
	if err := c.makeObjects(found.device.MaxCQE); err != nil {
		return err
	}
	for range c.cfg.QPs {
		err := c.makeQueuePair(oob.Endpoint{
			LID: found.port.LID, GID: c.gid.GID, MTU: found.mtu,
			InitiatorDepth:     uint8(min(found.device.MaxQPInitRdAtom, c.cfg.MaxReads)),
			ResponderResources: uint8(min(found.device.MaxQPRdAtom, c.cfg.MaxReads)),
			QKey:               c.cfg.QKey,
		})
		if err != nil {
			return err
		}
	}
	c.watchDevice()
	return nil
}

// chooseGID chooses the GID by the addresses of the TCP connection.
func (c *Conn) chooseGID(table []verbs.GIDEntry) error {
	selection := c.cfg.gidSelection()
	selection.Local, selection.Peer = ipOf(c.tcp.LocalAddr()), ipOf(c.tcp.RemoteAddr())
	entry, why, err := verbs.ChooseGID(table, selection)
	if err != nil {
		return errors.WithMessage(err, c.dev.Name())
	}
	c.gid = entry
	c.events.gidChosen(entry, why)
	return nil
}

// makeObjects makes the objects that queue pairs need, or takes the server's.
func (c *Conn) makeObjects(maxCQE int) error {
	if c.server != nil {
		return c.useServer(c.server)
	}
	if err := c.makePD(); err != nil {
		return err
	}
	if err := c.makeQueues(maxCQE); err != nil {
		return err
	}
	c.makeRoutes(c.dispatchers())
	// The program may make queue pairs of its own on the CQs.
	c.sends.ClaimRest()
	c.recvs.ClaimRest()
	return nil
}

// makeRoutes makes the Conn's routes: one route if both dispatchers are one.
func (c *Conn) makeRoutes(sends, recvs *dispatch.Dispatcher) {
	c.sends = sends.NewRoute(c.cfg.Spin, c.cancel)
	c.recvs = c.sends
	if recvs != sends {
		c.recvs = recvs.NewRoute(c.cfg.Spin, c.cancel)
	}
	context.AfterFunc(c.ctx, c.sends.Nudge)
	context.AfterFunc(c.ctx, c.recvs.Nudge)
	context.AfterFunc(c.recvCtx, c.recvs.Nudge)
}

func (c *Conn) prepare(context.Context) error {
	if c.cfg.Prepare == nil {
		return nil
	}
	if err := c.cfg.Prepare(c); err != nil {
		return err
	}
	return c.shareErr
}

// randomPSN returns 24 random bits, so that a new connection drops packets of an old one.
func randomPSN() uint32 {
	return uint32(randomID() >> 40)
}

// randomID returns an ID that no other work request is likely to have.
func randomID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

func ipOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
