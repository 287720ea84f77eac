// Serving: one handler per client, and an end that lets handlers finish.

package rc

import (
	"context"
	stderrors "errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// errStopping is what clients get when the server ends before they do.
var errStopping = errors.New("the server is being stopped; try: again later")

// Serve accepts clients of l until ctx ends, and runs handler for each in a goroutine. It closes
// l, and returns when all handlers have returned and all Conns are closed.
//
// If handler returns nil, or the io.EOF of WaitRecv, Serve meets the client's Finish. Serve sends
// any other error to the client and logs it. A panic ends the process.
//
// handler's context ends with ctx, or when l fails. Handlers then have Grace to return, before
// Serve closes their Conns. Serve returns nil if all clients were done by then. Otherwise the
// error says how many were not, or is the failure of l, or the *[AsyncError] of a device that is
// lost.
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
	err := v.accept(l)
	failed := ctx.Err() == nil // not because ctx ended
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
		return errors.Errorf("rc: %d clients were still served %v after the end of Serve's context (%v), and their connections were closed", late, s.conf.Grace, context.Cause(ctx))
	}
	return closeErr
}

// service is one Serve.
type service struct {
	s       *Server
	handler func(context.Context, *Conn) error
	ctx     context.Context // until clients are let in no more
	hard    context.Context // until handlers may not go on
	clients sync.WaitGroup
	late    atomic.Int32 // Conns that were closed under their handler
}

func (v *service) accept(l *Listener) error {
	limit := v.s.cfg.Timeout
	if limit <= 0 {
		limit = oob.DefaultTimeout
	}
	for {
		in, err := l.Accept(v.ctx)
		if err != nil {
			return err
		}
		// Connections enter in the order in which they were accepted, so the one that is
		// dropped for others is the oldest.
		waiting, leave := v.s.lobby.Enter(v.ctx, limit)
		v.clients.Go(func() {
			_, err := in.Hello(waiting)
			leave()
			if err = v.client(in, err); err != nil && !v.stopped(err) {
				v.s.events.clientFailed(in.tcp.RemoteAddr(), err)
			}
		})
	}
}

// stopped says whether err is no failure, but the end of the service.
func (v *service) stopped(err error) bool {
	return v.ctx.Err() != nil && (errors.Is(err, v.ctx.Err()) || errors.Is(err, context.Cause(v.ctx)) || errors.Is(err, net.ErrClosed))
}

// client serves one client to the end; err is how the wait for its hello ended.
func (v *service) client(in *Incoming, err error) error {
	s := v.s
	if err == nil {
		select {
		case s.places <- struct{}{}:
		default:
			err = errors.Errorf("the server has its %d clients; try: later, or a server with a higher MaxConns", s.conf.MaxConns)
		}
	}
	if err != nil {
		in.Refuse(v.told(err))
		return err
	}
	defer func() { <-s.places }()
	cfg := s.conf.Config
	cfg.Device = s.dev
	conn, err := in.connect(v.ctx, cfg, s)
	if err != nil {
		return err
	}
	return v.handle(conn)
}

// handle runs the handler, and closes the Conn whichever way the handler ends.
func (v *service) handle(c *Conn) (err error) {
	err = errAborted // unless the handler returns
	var closing sync.WaitGroup
	closing.Add(1)
	stop := context.AfterFunc(v.hard, func() {
		defer closing.Done()
		v.late.Add(1)
		c.Fail("handler", errStopping)
		_ = c.Close() // which is called again below
	})
	defer func() {
		if err != nil {
			c.Fail("handler", v.told(err))
		}
		if !stop() {
			closing.Wait()
		}
		err = stderrors.Join(err, c.Close())
	}()
	err = v.handler(v.ctx, c)
	if errors.Is(err, io.EOF) && c.peerDone() {
		err = nil
	}
	if err == nil && !c.hasFinished() {
		err = c.Finish(v.hard)
	}
	return err
}

// told is what the client gets of an error.
func (v *service) told(err error) error {
	if v.stopped(err) {
		return errStopping
	}
	return err
}

// peerDone says whether the peer is at the barrier "done".
func (c *Conn) peerDone() bool { return context.Cause(c.recvCtx) == io.EOF } //nolint:errorlint // it is io.EOF itself

func (c *Conn) hasFinished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finished
}
