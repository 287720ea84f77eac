package oob

// Dial and Listen, and the hints in their errors.

import (
	"context"
	stderrors "errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// keepAlive detects within about 20 s that the peer's host is unreachable.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

// AddressError reports a failed Dial or Listen, with a remedy.
type AddressError struct {
	Op      string // "connect to" or "listen on"
	Address string // the caller's argument
	Try     string // the remedy
	Err     error  // the error of package net, or the fault in Address
}

// Error returns one line: the operation, the cause and the remedy.
func (e *AddressError) Error() string {
	text := e.Err.Error()
	var errno syscall.Errno
	var op *net.OpError
	if errors.As(e.Err, &errno) {
		text = errno.Error() // without net's prefix, which repeats the address
	} else if errors.As(e.Err, &op) {
		text = op.Err.Error()
	}
	return fmt.Sprintf("oob: cannot %s %s: %s; %s", e.Op, e.Address, text, e.Try)
}

// Unwrap returns the cause, such as an error that matches syscall.ECONNREFUSED.
func (e *AddressError) Unwrap() error { return e.Err }

const (
	opConnect = "connect to"
	opListen  = "listen on"
)

// Dial connects to the peer that listens at address, "host:port". It gives up after
// opts.Timeout if ctx has no deadline. The error is an [*AddressError].
func Dial(ctx context.Context, address string, opts Options) (*Conn, error) {
	if err := checkAddress(address, 1); err != nil {
		return nil, &AddressError{opConnect, address, tryAddress, err}
	}
	ctx, cancel := stepContext(ctx, opts.Timeout)
	defer cancel()
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	nc, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &AddressError{opConnect, address, tryConnect(address, err), withCause(ctx, err)}
	}
	limitUnacknowledged(nc.(*net.TCPConn))
	return NewConn(nc, opts), nil
}

// Listener accepts connections from peers. [Listen] returns it; it is valid until Close.
// Several goroutines may call its methods at once. Each connection goes to one Accept.
type Listener struct {
	nl        *net.TCPListener
	opts      Options
	accepting chan struct{} // a lock: nl's deadline is for one Accept at a time
	close     sync.Once
}

// Listen listens on the TCP address "host:port" or ":port". Port 0 takes any free port;
// Addr returns it. Accepted connections use opts. The error is an [*AddressError].
func Listen(ctx context.Context, address string, opts Options) (*Listener, error) {
	if err := checkAddress(address, 0); err != nil {
		return nil, &AddressError{opListen, address, tryAddress, err}
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	nl, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &AddressError{opListen, address, tryListen(address, err), withCause(ctx, err)}
	}
	return &Listener{
		nl:        nl.(*net.TCPListener),
		opts:      opts,
		accepting: make(chan struct{}, 1),
	}, nil
}

// Addr returns the address that the Listener listens on, with the actual port.
func (l *Listener) Addr() net.Addr { return l.nl.Addr() }

// Accept waits for the next connection and returns it. Only ctx limits the wait. When ctx
// ends, the error matches ctx.Err(); after Close it matches net.ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case l.accepting <- struct{}{}:
		defer func() { <-l.accepting }()
	case <-ctx.Done():
	}
	var nc net.Conn
	err := ctx.Err()
	if err == nil {
		err = interruptible(ctx, l.nl.SetDeadline, func() (err error) {
			nc, err = l.nl.Accept()
			return err
		})
	}
	switch {
	case err == nil:
		limitUnacknowledged(nc.(*net.TCPConn))
		return NewConn(nc, l.opts), nil
	case errors.Is(err, net.ErrClosed):
		err = net.ErrClosed
	case ctx.Err() != nil:
		err = &canceledError{ctx.Err(), context.Cause(ctx)}
	}
	return nil, errors.WithMessagef(err, "oob: waiting for a peer to connect to %v", l.Addr())
}

// Close stops listening and wakes waiting Accepts. Accepted connections stay open.
// Later calls do nothing and return nil.
func (l *Listener) Close() error {
	var err error
	l.close.Do(func() { err = l.nl.Close() })
	return errors.WithMessagef(err, "oob: closing the listener on %v", l.Addr())
}

const tryAddress = "write it as host:port, such as 192.0.2.1:18515 or [2001:db8::1]:18515"

// checkAddress returns an error unless address is host:port with a number from lowest
// to 65535 for the port.
func checkAddress(address string, lowest int) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		var e *net.AddrError
		if errors.As(err, &e) {
			return errors.New(e.Err) // without the address, which AddressError names
		}
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return errors.Errorf("the port %q is not a number", port)
	}
	if n < lowest || n > 65535 {
		return errors.Errorf("the port %d is not between %d and 65535", n, lowest)
	}
	return nil
}

func tryConnect(address string, err error) string {
	host, port, _ := net.SplitHostPort(address) // checkAddress has accepted it
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return "check the host name, or use the IP address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens on port %s there: start the program on that host first, or correct the address", port)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("check the address and the route to it: ip route get %s; ping %s", host, host)
	case errors.Is(err, context.Canceled):
		return "this end canceled the connection; run it again when the peer is ready"
	case isTimeout(err):
		return fmt.Sprintf("no answer: does ping %s work, and does a firewall drop TCP port %s?", host, port)
	}
	return "check the address, and whether the host can be reached"
}

func tryListen(address string, err error) string {
	host, port, _ := net.SplitHostPort(address) // checkAddress has accepted it
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return "check the host name, or use the IP address"
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("port %s is taken, perhaps by an earlier run: find it with ss -ltnp 'sport = :%s', or take another port", port, port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("port %s needs privileges; take one above 1023", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("%s is not an address of this host (see ip addr); omit the host to listen on all addresses", host)
	}
	return "check the address"
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// withCause adds ctx's Err and its cause to an error if ctx has ended.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return stderrors.Join(err, ctx.Err(), context.Cause(ctx))
}
