package oob

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

func TestBadAddresses(t *testing.T) {
	for _, test := range []struct{ address, dial, listen string }{
		{"127.0.0.1", "missing port in address", "missing port in address"},
		{"::1", "too many colons in address", "too many colons in address"},
		{"127.0.0.1:http", `the port "http" is not a number`, `the port "http" is not a number`},
		{"127.0.0.1:70000", "not between 1 and 65535", "not between 0 and 65535"},
		{"127.0.0.1:-1", "not between 1 and 65535", "not between 0 and 65535"},
		{"127.0.0.1:0", "not between 1 and 65535", ""},
	} {
		c, err := Dial(t.Context(), test.address, Options{})
		checkAddressError(t, "dial "+test.address, err, test.dial)
		if err == nil {
			c.Close()
		}
		l, err := Listen(t.Context(), test.address, Options{})
		checkAddressError(t, "listen "+test.address, err, test.listen)
		if err == nil {
			l.Close()
		}
	}
}

func checkAddressError(t *testing.T, what string, err error, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	var e *AddressError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

func TestDialRefused(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = Dial(t.Context(), address, Options{})
	checkAddressError(t, "dial", err, "oob: cannot connect to "+address+": connection refused; nothing listens on port ")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v is not ECONNREFUSED", err)
	}
}

func TestListenPortTaken(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_, err = Listen(t.Context(), address, Options{})
	checkAddressError(t, "listen", err, "oob: cannot listen on "+address+": address already in use; port "+port+" is taken")
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v is not EADDRINUSE", err)
	}
}

// TestHints checks the remedy for each error. It makes the errors itself, because a test
// cannot rely on an unreachable network.
func TestHints(t *testing.T) {
	timeout := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for _, test := range []struct {
		advice func(string, error) string
		err    error
		want   string
	}{
		{tryConnect, os.NewSyscallError("connect", syscall.EHOSTUNREACH), "ip route get 192.0.2.1"},
		{tryConnect, os.NewSyscallError("connect", syscall.ENETUNREACH), "ip route get 192.0.2.1"},
		{tryConnect, timeout, "firewall drop TCP port 18515"},
		{tryConnect, &net.DNSError{}, "IP address"},
		{tryConnect, context.Canceled, "canceled"},
		{tryConnect, syscall.EPERM, "can be reached"},
		{tryListen, os.NewSyscallError("bind", syscall.EACCES), "above 1023"},
		{tryListen, os.NewSyscallError("bind", syscall.EADDRNOTAVAIL), "192.0.2.1 is not an address of this host"},
		{tryListen, &net.DNSError{}, "IP address"},
		{tryListen, syscall.EPERM, "check the address"},
	} {
		if got := test.advice("192.0.2.1:18515", test.err); !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func TestDialCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dial(ctx, "127.0.0.1:18515", Options{})
	checkAddressError(t, "dial", err, "canceled")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not context.Canceled", err)
	}
	late := testkit.Expiring(t)
	<-late.Done()
	_, err = Dial(late, "127.0.0.1:18515", Options{})
	checkAddressError(t, "dial", err, "firewall")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", err)
	}
}

// TestAccept checks that Accept works again after its context has ended, and no longer
// works after Close.
func TestAccept(t *testing.T) {
	noLeaks(t)
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("with a context that has ended: %v", err)
		}
		client, err := Dial(t.Context(), l.Addr().String(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept(t.Context())
		if err != nil {
			t.Fatalf("after a cancellation: %v", err)
		}
		client.Close()
		server.Close()
	}
	if _, err := l.Accept(testkit.Expiring(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ended := make(chan error)
	go func() { _, err := l.Accept(t.Context()); ended <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
