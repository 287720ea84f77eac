// Dialing.

package rnet

import (
	"context"
	"log/slog"
	"net"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// Dialer makes Conns. The zero value works. Its methods may be called by several goroutines at once.
type Dialer struct {
	Config

	// Fallback connects if RDMA cannot. It gets the arguments of DialContext; (*net.Dialer).DialContext
	// suits. It is called if this end has no usable device and, unless TLSConfig is set, if the peer is no
	// listener of this package: it speaks another protocol, says nothing, or closes before it has said
	// anything. With TLSConfig a peer cannot cause it, so that nobody on the way can turn TLS off. Each
	// fallback is logged as a warning. nil: DialContext returns the error instead.
	Fallback func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial connects to the [Listener] at "host:port" with the zero Dialer. The network is "rdma" or "tcp".
func Dial(network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(context.Background(), network, address)
}

// DialContext connects to the [Listener] at "host:port". ctx limits only the connecting. The network
// is "rdma"; "tcp", "tcp4" and "tcp6" mean the same, for callers such as http.Transport. The
// connection is a [*Conn] unless Fallback made it. The error is a [*net.OpError] around an error of
// rc.Dial or verbs.Open.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := checkNetwork(network); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	c, err := d.dial(ctx, address)
	if err == nil {
		return c, nil
	}
	fall := d.Fallback != nil && ctx.Err() == nil && d.mayFallBack(err)
	err = &net.OpError{Op: "dial", Net: network, Addr: &Addr{Host: address}, Err: asTimeout(err)}
	if !fall {
		return nil, err
	}
	if d.Logger != nil {
		d.Logger.Warn("rnet: no RDMA, falling back", slog.String("address", address), slog.String("why", err.Error()))
	}
	return d.Fallback(ctx, network, address)
}

// mayFallBack reports whether Fallback may connect after an error of dial.
func (d *Dialer) mayFallBack(err error) bool {
	var device *deviceError
	var closed *oob.ClosedError
	var silent *oob.TimeoutError
	switch {
	case errors.As(err, &device), errors.Is(err, syscall.ENETDOWN):
		return true
	case d.TLSConfig != nil:
		return false
	case errors.As(err, &closed):
		return closed.First
	case errors.As(err, &silent):
		return silent.Got == 0 && silent.Last == ""
	}
	return errors.Is(err, oob.ErrForeignPeer)
}

// deviceError is the error of a Dialer without a usable device.
type deviceError struct{ error }

func (e *deviceError) Unwrap() error { return e.error }

// asTimeout makes an error that a timeout caused a [net.Error] with Timeout. net.OpError looks only at its
// Err, and not at what that wraps.
func asTimeout(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return timeoutError{err}
	}
	return err
}

type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (e timeoutError) Unwrap() error { return e.error }

func checkNetwork(name string) error {
	switch name {
	case network, "tcp", "tcp4", "tcp6":
		return nil
	}
	return errors.Errorf("rnet: the network %q is unknown; try: %q", name, network)
}

func (d *Dialer) dial(ctx context.Context, address string) (*Conn, error) {
	cfg, err := d.complete()
	if err != nil {
		return nil, err
	}
	dev, free, err := useDevice(cfg.Device)
	if err != nil {
		return nil, &deviceError{err}
	}
	return cfg.connect(dev, free, func(rcCfg rc.Config) (*rc.Conn, error) {
		rcCfg.Job, rcCfg.Params, rcCfg.TLS = jobName, helloParams(cfg.Ring), cfg.TLSConfig
		return rc.Dial(ctx, address, rcCfg)
	})
}
