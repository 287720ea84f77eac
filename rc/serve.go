// Serving: one handler per client, and a graceful end.

package rc

import (
	"context"
	stderrors "errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/oob"
)

// errStopping is sent to clients that are not done when the server ends.
var errStopping = errors.New("the server is being stopped; try: again later")

// Serve accepts clients of l and runs handler for each, in a goroutine. It closes l, and returns
// when all handlers have returned and all Conns are closed. If handler returns nil, or the io.EOF
// of WaitRecv, Serve waits for the client's Finish as long as the TCP connection lives; it logs any
// other error and sends it to the client. A panic ends the process.
//
// When ctx ends, or l fails, handler's context ends. Clients whose handlers have returned nil may go on until
// their Finish. After Grace, Serve closes the Conns of handlers that still run, and of clients that have not
// finished. The error has the number of these handlers, or is the failure of l, or the *[AsyncError] of a lost
// device; otherwise it is nil.
func (s *Server) Serve(ctx context.Context, l *Listener, handler func(context.Context, *Conn) error) error {
	defer l.Close()
	if !s.begin() {
		return errServerClosed
	}
	defer s.end()
	accepting, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(s.ctx, func() { end(context.Cause(s.ctx)) })()
	hard, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	v := &service{s: s, handler: handler, ctx: accepting, hard: hard}
	err := admission.Serve(accepting, s.admission, &v.clients, l.Accept, v.serve)
	failed := ctx.Err() == nil // l failed, and ctx has not ended
	end(err)
	closeErr := l.Close()
	timer := time.AfterFunc(max(s.conf.Grace, 0), func() { kill(errStopping) })
	v.clients.Wait()
	timer.Stop()
	switch late := v.late.Load(); {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case failed:
		return err
	case late > 0:
		return errors.Errorf("rc: %d handlers still ran %v after the end of Serve's context (%v), and their connections were closed", late, s.conf.Grace, context.Cause(ctx))
	}
	return closeErr
}

// service is one call of Serve.
type service struct {
	s       *Server
	handler func(context.Context, *Conn) error
	ctx     context.Context // its end stops accepting clients
	hard    context.Context // its end closes the Conns of handlers that still run
	clients sync.WaitGroup
	late    atomic.Int32 // number of handlers that still ran when their Conns were closed
}

// serve serves one client, and logs its failure.
func (v *service) serve(c *admission.Client, in *Incoming) {
	err := c.Hello(v.limit(), func(ctx context.Context) error {
		_, err := in.Hello(ctx)
		return err
	})
	conn, err := v.connect(c, in, err)
	connected := err == nil
	if connected {
		err = v.handle(conn)
	}
	if err != nil && !v.stopped(err) {
		v.s.strangers.Failed(!connected, func(omitted ...slog.Attr) { v.s.events.clientFailed(in.tcp.RemoteAddr(), err, omitted...) })
	}
}

// limit returns the time limit of a client's hello.
func (v *service) limit() time.Duration {
	if v.s.cfg.Timeout <= 0 {
		return oob.DefaultTimeout
	}
	return v.s.cfg.Timeout
}

// limited returns the context of a client's steps after its hello.
func (v *service) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if v.s.cfg.Timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, v.limit())
}

// stopped reports whether err comes from the end of the service.
func (v *service) stopped(err error) bool {
	return v.ctx.Err() != nil && (errors.Is(err, v.ctx.Err()) || errors.Is(err, context.Cause(v.ctx)) || errors.Is(err, net.ErrClosed))
}

// connect gives a client its place and connects it. err is the result of its hello.
func (v *service) connect(c *admission.Client, in *Incoming, err error) (*Conn, error) {
	s := v.s
	ctx := v.ctx
	if err == nil {
		ctx, err = c.Admit(ctx, 0, nil)
	}
	if err != nil {
		if errors.As(err, new(*admission.FullError)) {
			err = errors.Errorf("the server is full, with %d clients; try: again later, or a higher MaxConns at the server", s.conf.MaxConns)
		}
		in.Refuse(v.forPeer(err))
		return nil, err
	}
	cfg := s.conf.Config
	cfg.Device = s.dev
	ctx, cancel := v.limited(ctx)
	defer cancel()
	conn, err := in.connect(ctx, cfg, s)
	if err != nil {
		return nil, err
	}
	if err := c.Connected(0); err != nil {
		conn.fail("barrier in RTS", v.forPeer(err))
		return nil, stderrors.Join(err, conn.Close())
	}
	return conn, nil
}

// handle runs the handler and closes the Conn, also after a panic.
func (v *service) handle(c *Conn) (err error) {
	err = errAborted // unless the handler returns
	var closing sync.WaitGroup
	var returned atomic.Bool
	closing.Add(1)
	stop := context.AfterFunc(v.hard, func() {
		defer closing.Done()
		if !returned.Load() { // else it waits for the client's Finish
			v.late.Add(1)
		}
		c.fail("handler", errStopping)
		_ = c.Close() // called again below, for its error
	})
	defer func() {
		if err != nil {
			c.fail("handler", v.forPeer(err))
		}
		if !stop() {
			closing.Wait()
		}
		err = stderrors.Join(err, c.Close())
	}()
	err = v.handler(v.ctx, c)
	returned.Store(true)
	if errors.Is(err, io.EOF) && c.peerDone() {
		err = nil
	}
	if err == nil && !c.hasFinished() {
		err = c.Finish(v.hard)
	}
	return err
}

// forPeer returns the error to send to the client.
func (v *service) forPeer(err error) error {
	if v.stopped(err) {
		return errStopping
	}
	return err
}

// peerDone reports whether the peer is at the barrier "done".
func (c *Conn) peerDone() bool { return context.Cause(c.recvCtx) == io.EOF } //nolint:errorlint // it is io.EOF itself

func (c *Conn) hasFinished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finished
}
