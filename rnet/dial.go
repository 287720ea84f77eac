// Dialing.

package rnet

import (
	"context"
	"log/slog"
	"net"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/rc"
)

// Dialer makes Conns. The zero value works. Its methods may be called by several goroutines at once.
type Dialer struct {
	Config

	// Fallback connects if RDMA cannot: there is no usable device, or the peer at the address is no
	// listener of this package. It gets the arguments of DialContext; (*net.Dialer).DialContext
	// suits. Each fallback is logged as a warning. nil: DialContext returns the error instead.
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
	err = &net.OpError{Op: "dial", Net: network, Addr: &Addr{Host: address}, Err: err}
	if d.Fallback == nil || ctx.Err() != nil {
		return nil, err
	}
	if d.Logger != nil {
		d.Logger.Warn("rnet: no RDMA, falling back", slog.String("address", address), slog.String("why", err.Error()))
	}
	return d.Fallback(ctx, network, address)
}

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
		return nil, err
	}
	rcCfg, made := cfg.rc(dev)
	rcCfg.Job, rcCfg.Params, rcCfg.TLS = jobName, helloParams(cfg.Ring), cfg.TLSConfig
	r, err := rc.Dial(ctx, address, rcCfg)
	if err != nil {
		free()
		return nil, err
	}
	c, err := take(r, made(), free)
	if err != nil {
		free()
	}
	return c, err
}
