// A connected endpoint: its objects, waiting for completions, and its end.

package rc

import (
	"context"
	stderrors "errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Conn is a reliable connection in RTS. Its methods may be called by several
// goroutines at once; QP, SendCQ and RecvCQ are there for what it does not wrap.
type Conn struct {
	cfg    Config
	tcp    *oob.Conn
	events events

	dev      *verbs.Device
	ethernet bool
	gid      verbs.GIDEntry
	pd       *verbs.PD
	channel  *verbs.CompChannel
	sendCQ   *verbs.CQ
	recvCQ   *verbs.CQ
	qp       *verbs.QP
	machine  *qpstate.Machine

	local, peer oob.Endpoint
	peerRegions []oob.Region
	peerHello   oob.Hello

	life       context.Context // ends, with the cause, when the peer or the device is gone
	endLife    context.CancelCauseFunc
	stopEvents func() // of the device
	stopTCP    func() // watching the peer

	mu      sync.Mutex
	closing bool           // Close has begun: no new object, no new wait
	calls   sync.WaitGroup // under way, which Close waits for
	regions []oob.Region   // shared by this end
	owned   []owned        // what Close frees, last first

	finished bool // both ends met in the barrier "done"
	farewell func(context.Context, *oob.Conn) error

	closeOnce sync.Once
	closeErr  error
}

// newConn makes a Conn with nothing but a TCP connection, and a life.
func newConn(tcp *oob.Conn, hello oob.Hello, cfg Config) *Conn {
	c := &Conn{cfg: cfg, tcp: tcp, peerHello: hello, events: events{cfg.Logger}, stopEvents: func() {}, stopTCP: func() {}}
	c.life, c.endLife = context.WithCancelCause(context.Background())
	return c
}

// owned is an object that the Conn frees.
type owned struct {
	verb, name string
	io.Closer
}

// own sees to it that Close frees object.
func (c *Conn) own(verb, name string, object io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = append(c.owned, owned{verb, name, object})
}

// QP is the queue pair.
func (c *Conn) QP() *verbs.QP { return c.qp }

// SendCQ is where sends complete; RecvCQ where receives do.
func (c *Conn) SendCQ() *verbs.CQ { return c.sendCQ }

// RecvCQ is where receives complete.
func (c *Conn) RecvCQ() *verbs.CQ { return c.recvCQ }

// PD is the protection domain of the queue pair.
func (c *Conn) PD() *verbs.PD { return c.pd }

// Device is the device in use.
func (c *Conn) Device() *verbs.Device { return c.dev }

// Local is this end's endpoint as the peer knows it; Peer is the peer's.
func (c *Conn) Local() oob.Endpoint { return c.local }

// Peer is the peer's endpoint.
func (c *Conn) Peer() oob.Endpoint { return c.peer }

// PeerHello is what the peer said first: its job and parameters.
func (c *Conn) PeerHello() oob.Hello { return c.peerHello }

// RemoteAddr is the peer's TCP address.
func (c *Conn) RemoteAddr() net.Addr { return c.tcp.RemoteAddr() }

// PathMTU is the negotiated payload of one packet, in bytes.
func (c *Conn) PathMTU() int { return oob.NegotiateMTU(c.local.MTU, c.peer.MTU) }

// AllocMR registers size bytes that live as long as the Conn.
func (c *Conn) AllocMR(name string, size int, access verbs.Access) (*verbs.MR, error) {
	if !c.begin() {
		return nil, net.ErrClosed
	}
	defer c.calls.Done()
	mr, err := c.pd.AllocMR(size, access)
	if err != nil {
		return nil, err
	}
	c.own("ibv_dereg_mr", "memory region "+name, mr)
	c.events.made(pathFast, "ibv_reg_mr", "register memory region "+name,
		slog.String("addr", fmt.Sprintf("%#x", mr.Addr())), slog.Int("length", mr.Len()),
		slog.String("lkey", fmt.Sprintf("%#x", mr.LKey())), slog.String("rkey", fmt.Sprintf("%#x", mr.RKey())),
		slog.String("access", access.Name()))
	return mr, nil
}

// Share offers a region to the peer under a name. It is for Config.Prepare:
// regions are exchanged right after it.
func (c *Conn) Share(name string, mr *verbs.MR) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.regions = append(c.regions, oob.Region{Name: name, Addr: mr.Addr(), RKey: mr.RKey(), Length: uint64(mr.Len())})
}

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

// watchDevice ends the Conn's life when the device, the queue pair or one of its
// completion queues reports that it is dead.
func (c *Conn) watchDevice() {
	qpn := c.qp.QPN()
	c.stopEvents = c.dev.Subscribe(func(e verbs.AsyncEvent) {
		switch {
		case e.Type == verbs.EventDeviceFatal:
		case e.Type == verbs.EventCQErr:
			if !c.sendCQ.Is(e) && !c.recvCQ.Is(e) {
				return
			}
		case e.QPN != 0 && e.QPN != qpn:
			return
		}
		c.events.async(e)
		if e.Fatal() {
			c.endLife(&AsyncError{Device: c.dev.Name(), Event: e})
		}
	})
}

// watchPeer ends the Conn's life when the peer fails or is gone.
func (c *Conn) watchPeer() {
	tcpLife, stopWatching := c.tcp.Watch(context.Background())
	stopTelling := context.AfterFunc(tcpLife, func() { c.endLife(context.Cause(tcpLife)) })
	c.stopTCP = func() {
		stopTelling()
		stopWatching()
	}
}

// WaitSend returns the next completion of the send queue, WaitRecv of the receive
// queue. The error is a *verbs.WCError for a failed work request; else the cause
// of ctx's end, or why the connection ended: a *oob.PeerError or *oob.ClosedError
// if the peer failed or is gone, an *[AsyncError] if the device did.
func (c *Conn) WaitSend(ctx context.Context) (verbs.WC, error) { return c.waitOne(ctx, c.sendCQ) }

// WaitRecv returns the next completion of the receive queue; see WaitSend.
func (c *Conn) WaitRecv(ctx context.Context) (verbs.WC, error) { return c.waitOne(ctx, c.recvCQ) }

func (c *Conn) waitOne(ctx context.Context, cq *verbs.CQ) (verbs.WC, error) {
	if !c.begin() {
		return verbs.WC{}, net.ErrClosed
	}
	defer c.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	defer stop()
	var wcs [1]verbs.WC
	n, err := cq.Wait(ctx, wcs[:])
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n, _ = cq.Poll(wcs[:]) // it may have come with the end
	}
	if n == 0 {
		return verbs.WC{}, err
	}
	return wcs[0], wcs[0].Err()
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

// Barrier returns when the peer has reached the barrier of the same name.
func (c *Conn) Barrier(ctx context.Context, name string) error { return c.tcp.Barrier(ctx, name) }

// Finish meets the peer in the barrier "done": after it both may close, and
// neither takes the other's closing for a failure.
func (c *Conn) Finish(ctx context.Context) error {
	c.stopTCP()
	err := c.tcp.Barrier(ctx, barrierDone)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = c.finished || err == nil
	return err
}

// Fail tells the peer why this end gives up; Close follows.
func (c *Conn) Fail(step string, cause error) { c.tcp.Fail(step, cause) }

// Close moves the queue pair to ERR, waits until its work requests are flushed,
// frees everything, the last made first, and says Farewell. Waits that are under way end with
// net.ErrClosed. Closing again returns the same.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Conn) close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.endLife(net.ErrClosed)
	c.stopTCP()
	c.stopEvents()
	c.calls.Wait()

	var errs []error
	if c.machine != nil && c.machine.State() != qpstate.Reset {
		errs = append(errs, c.drain())
	}
	for i := len(c.owned) - 1; i >= 0; i-- {
		object := c.owned[i]
		err := object.Close()
		if err == nil {
			c.events.freed(object.verb, object.name)
		}
		errs = append(errs, err)
	}
	errs = append(errs, c.sayFarewell(), c.tcp.Close())
	return stderrors.Join(errs...)
}

// drainLimit is how long a flush may take before the objects are freed anyway;
// drainQuiet how long a queue must be silent to count as flushed if it was too
// full for a mark.
const (
	drainLimit = time.Second
	drainQuiet = 50 * time.Millisecond
)

// drainID marks the work request that ends a queue.
const drainID = 1<<64 - 1

// drain flushes both queues: in ERR the device completes every work request, in
// order, so that a mark behind the last one says when all are through. The
// receive queue's mark is posted before the move, because rdma_rxe does not
// notice a receive that is posted in ERR; the send queue's after it, because
// before it would be sent.
func (c *Conn) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	recvMarked := c.qp.PostRecv([]verbs.RecvWR{{ID: drainID}}) == nil
	if err := c.machine.ToError(); err != nil {
		return err
	}
	sendMarked := c.qp.PostSend([]verbs.SendWR{{ID: drainID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}) == nil
	sends, err := drainCQ(ctx, c.sendCQ, sendMarked)
	if err != nil {
		return errors.WithMessage(err, "drain the send queue")
	}
	recvs, err := drainCQ(ctx, c.recvCQ, recvMarked)
	if err != nil {
		return errors.WithMessage(err, "drain the receive queue")
	}
	c.events.drained(sends + recvs)
	return nil
}

// drainCQ polls until the mark, or until nothing more comes if there is none or
// somebody who polls the CQ himself took it, and returns how many work requests
// were flushed.
func drainCQ(ctx context.Context, cq *verbs.CQ, marked bool) (flushed int, err error) {
	if !marked {
		quiet, cancel := context.WithTimeout(ctx, drainQuiet)
		defer cancel()
		ctx = quiet
	}
	var wcs [16]verbs.WC
	for {
		n, err := cq.Wait(ctx, wcs[:])
		if errors.Is(err, context.DeadlineExceeded) {
			return flushed, nil
		}
		if err != nil {
			return flushed, err
		}
		for _, wc := range wcs[:n] {
			if wc.ID == drainID {
				return flushed, nil
			}
			if wc.Status == verbs.WCWRFlushErr {
				flushed++
			}
		}
	}
}
