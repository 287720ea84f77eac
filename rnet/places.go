// The places of a Listener: each Conn in the backlog has one, and each peer that is being connected.

package rnet

import (
	"context"
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

var (
	errFull    = errors.New("the listener has no place, because its program does not accept, or too many others came at once; try: again later, or a longer ListenConfig.Backlog there")
	errClosing = errors.New("the listener is being closed; try: again later")
)

const (
	// waitingPerPlace limits how many peers wait for a place.
	waitingPerPlace = 8
	// connectingMemory is what the peers that are being connected may use together, in bytes. A peer that says hello and
	// nothing more costs the listener a ring.
	connectingMemory = 10 << 20
	// connectLimit limits the connecting after the hello.
	connectLimit = 10 * time.Second
)

// newController makes the Controller of a listener with so many places. A peer waits for one as long as a step may take.
func newController(cfg Config, places int) *admission.Controller {
	patience := cfg.Timeout
	if patience <= 0 {
		patience = oob.DefaultTimeout
	}
	return admission.New(admission.Limits{Clients: places, Memory: max(connectingMemory, memoryOf(cfg)), Waiting: waitingPerPlace * places, Patience: patience})
}

// memoryOf returns how many bytes a Conn takes before it is connected: a ring and its queues.
func memoryOf(cfg Config) int64 { return int64(cfg.Ring) + 256<<10 }

// pending is a Conn in the backlog.
type pending struct {
	*Conn
	taken chan struct{} // closed by Accept
}

// receive connects a peer, puts its Conn into the backlog, and keeps its place until Accept takes it.
func (l *Listener) receive(c *admission.Client, in *rc.Incoming) {
	conn, err := l.connect(c, in)
	if err != nil {
		if l.ctx.Err() == nil {
			l.strangers.Failed(true, func(omitted ...slog.Attr) {
				l.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "rnet: a peer could not connect",
					append([]slog.Attr{slog.Any("peer", in.TCP().RemoteAddr()), slog.String("why", err.Error())}, omitted...)...)
			})
		}
		return
	}
	a := &pending{conn, make(chan struct{})}
	l.backlog <- a // has room, because it is as long as there are places
	select {
	case <-a.taken:
	case <-l.ctx.Done():
	}
}

// limit returns the limit of a hello, and of the connecting.
func (l *Listener) limit() time.Duration {
	if l.cfg.Timeout <= 0 {
		return connectLimit
	}
	return min(l.cfg.Timeout, connectLimit)
}

func (l *Listener) connect(c *admission.Client, in *rc.Incoming) (*Conn, error) {
	ctx := l.ctx
	err := c.Hello(l.limit(), func(ctx context.Context) error {
		_, err := in.Hello(ctx)
		return err
	})
	if err == nil {
		ctx, err = c.Admit(ctx, memoryOf(l.cfg), nil)
	}
	if err != nil {
		switch {
		case l.ctx.Err() != nil:
			err = errClosing
		case errors.As(err, new(*admission.FullError)):
			err = errFull
		}
		in.Refuse(err)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.limit())
	defer cancel()
	conn, err := l.take(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := c.Connected(0); err != nil {
		reset(conn)
		return nil, err
	}
	return conn, nil
}

func (l *Listener) take(ctx context.Context, in *rc.Incoming) (*Conn, error) {
	dev, free, err := useDevice(l.cfg.Device)
	if err != nil {
		in.Refuse(err)
		return nil, err
	}
	return l.cfg.connect(dev, free, func(cfg rc.Config) (*rc.Conn, error) { return in.Connect(ctx, cfg) })
}
