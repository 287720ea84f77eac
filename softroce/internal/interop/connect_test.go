//go:build rdma && rxe

package interop

import (
	"context"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

const all = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// inPeer runs f in the network namespace "peer". Sockets that f opens stay in it, but
// goroutines that f starts run outside.
func inPeer(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		result <- func() error {
			ns, err := os.Open("/run/netns/peer")
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return os.NewSyscallError("setns", err)
			}
			return f()
		}()
	}()
	return <-result
}

// here runs f in this namespace. It is an alternative to inPeer.
func here(f func() error) error { return f() }

// open opens a device in the namespace of in, which is here or inPeer. It closes it when the
// test ends.
func open(tb testing.TB, in func(func() error) error, name string) (dev *verbs.Device) {
	tb.Helper()
	err := in(func() (err error) {
		dev, err = verbs.Open(name)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := dev.Close(); err != nil {
			tb.Error(err)
		}
	})
	return dev
}

// end is a connected queue pair and its memory.
type end struct {
	*rc.Conn
	mr *verbs.MR
}

// connect connects a listener in this namespace with a dialer, which runs in the namespace of
// dial.
func connect(tb testing.TB, address string, listener, dialer rc.Config, dial func(func() error) error, size int) (l, d *end) {
	tb.Helper()
	ctx := testkit.Context(tb)
	listener.Access, dialer.Access = all, all
	tcp, err := rc.Listen(ctx, address, rc.ListenConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	defer tcp.Close()
	l, d = new(end), new(end)
	accepted := make(chan error, 1)
	go func() {
		in, err := tcp.Accept(ctx)
		if err == nil {
			_, err = in.Hello(ctx)
		}
		if err == nil {
			l.Conn, err = in.Connect(ctx, listener)
		}
		accepted <- err
	}()
	err = dial(func() (err error) {
		// With this context the moves stay on the thread, which is in another namespace.
		d.Conn, err = rc.Dial(context.Background(), tcp.Addr().String(), dialer)
		return err
	})
	if other := <-accepted; err != nil || other != nil {
		tb.Fatalf("dialer: %v; listener: %v", err, other)
	}
	for _, e := range []*end{l, d} {
		tb.Cleanup(func() {
			if err := e.Close(); err != nil {
				tb.Error(err)
			}
		})
		if e.mr, err = e.AllocMR("memory", size, all); err != nil {
			tb.Fatal(err)
		}
	}
	return l, d
}
