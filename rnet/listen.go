// Listening.

package rnet

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// ListenConfig makes Listeners. The zero value works.
type ListenConfig struct {
	Config
	// Backlog is how many Conns may wait for Accept or be under way at once; 0 means 128. Eight times as many
	// peers may wait for a place among them, each for Timeout at most, or for 30 s if Timeout is 0.
	Backlog int
}

const defaultBacklog = 128

// Listen listens on "host:port" or ":port" with the zero ListenConfig. The network is "rdma" or "tcp".
func Listen(network, address string) (net.Listener, error) {
	return new(ListenConfig).Listen(context.Background(), network, address)
}

// Listener is a [net.Listener] whose Accept returns a [*Conn]. ListenConfig.Listen makes it. Its
// methods may be called by several goroutines at once.
type Listener struct {
	cfg  Config
	rc   *rc.Listener
	addr *Addr

	ctx    context.Context // ends with Close, or when the listener fails
	cancel context.CancelCauseFunc

	admission *admission.Controller
	backlog   chan *pending
	peers     sync.WaitGroup
	ended     chan struct{} // closed when everything is freed
	strangers event.Sample  // whose failures are logged

	mu       sync.Mutex
	at       time.Time     // the deadline; zero: none
	deadline chan struct{} // closed when the deadline has passed
	timer    *time.Timer   // closes it
}

// Listen listens on the TCP address "host:port" or ":port", over which peers exchange the numbers of
// their queue pairs. ctx limits only the look-up of the host's name. The network is as in
// Dialer.DialContext. The listener is a [*Listener].
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := lc.listen(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: &Addr{Host: address}, Err: err}
	}
	return l, nil
}

func (lc *ListenConfig) listen(ctx context.Context, network, address string) (*Listener, error) {
	cfg, err := lc.complete()
	if err != nil {
		return nil, err
	}
	if err := checkNetwork(network); err != nil {
		return nil, err
	}
	dev, free, err := useDevice(cfg.Device)
	if err != nil {
		return nil, err
	}
	tcp, err := rc.Listen(ctx, address, rc.ListenConfig{Job: jobName, Params: helloParams(cfg.Ring), Timeout: cfg.Timeout,
		TLS: cfg.TLSConfig, Logger: cfg.Logger})
	if err != nil {
		free()
		return nil, err
	}
	backlog := lc.Backlog
	if backlog <= 0 {
		backlog = defaultBacklog
	}
	l := &Listener{cfg: cfg, rc: tcp, addr: &Addr{Host: tcp.Addr().String()}, deadline: make(chan struct{}), ended: make(chan struct{}),
		admission: newController(cfg, backlog), backlog: make(chan *pending, backlog)}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	stopEvents := dev.Subscribe(func(e verbs.AsyncEvent) {
		if e.Type == verbs.EventDeviceFatal {
			l.cancel(&rc.AsyncError{Device: dev.Name(), Event: e})
		}
	})
	go l.serve(func() { stopEvents(); free() })
	return l, nil
}

// serve takes peers until the listener is closed or fails, and frees everything.
func (l *Listener) serve(free func()) {
	l.cancel(admission.Serve(l.ctx, l.admission, &l.peers, l.rc.Accept, l.receive))
	_ = l.rc.Close()
	l.peers.Wait()
	l.drain()
	free()
	close(l.ended)
}

// drain resets the Conns in the backlog.
func (l *Listener) drain() {
	for {
		select {
		case a := <-l.backlog:
			reset(a.Conn)
		default:
			return
		}
	}
}

// reset ends a Conn that nobody has accepted, and returns when everything of it is freed.
func reset(c *Conn) {
	_ = c.SetLinger(0)
	_ = c.Close()
	<-c.ended
}

// Accept returns the next Conn, a [*Conn]. The error is a [*net.OpError] around net.ErrClosed,
// os.ErrDeadlineExceeded or the failure of the listener.
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	deadline := l.deadline
	l.mu.Unlock()
	select { // the end counts before what is in the backlog
	case <-l.ctx.Done():
	case <-deadline:
	default:
		select {
		case a := <-l.backlog:
			close(a.taken)
			return a.Conn, nil
		case <-l.ctx.Done():
		case <-deadline:
		}
	}
	err := os.ErrDeadlineExceeded
	if l.ctx.Err() != nil {
		err = context.Cause(l.ctx)
	}
	return nil, &net.OpError{Op: "accept", Net: network, Addr: l.addr, Err: err}
}

// SetDeadline sets the deadline of Accept, also of pending calls. The zero time means none.
func (l *Listener) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return &net.OpError{Op: "set", Net: network, Addr: l.addr, Err: context.Cause(l.ctx)}
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.at = t
	select {
	case <-l.deadline: // pending calls have returned
		l.deadline = make(chan struct{})
	default:
	}
	if left := time.Until(t); !t.IsZero() && left <= 0 {
		close(l.deadline)
	} else if !t.IsZero() {
		l.timer = time.AfterFunc(left, l.expire)
	}
	return nil
}

// expire ends pending calls of Accept, unless the deadline was set anew meanwhile.
func (l *Listener) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.deadline:
	default:
		if !l.at.IsZero() && !time.Now().Before(l.at) {
			close(l.deadline)
		}
	}
}

// Close stops listening. Conns in the backlog are reset; accepted Conns stay open. A pending Accept
// returns net.ErrClosed, and so does a second Close.
func (l *Listener) Close() error {
	if l == nil || l.rc == nil {
		return syscall.EINVAL // as package net
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(context.Cause(l.ctx), net.ErrClosed) {
		return &net.OpError{Op: "close", Net: network, Addr: l.addr, Err: net.ErrClosed}
	}
	l.cancel(net.ErrClosed)
	return l.rc.Close()
}

// Addr returns the address, an [*Addr], with the actual port.
func (l *Listener) Addr() net.Addr { return l.addr }
