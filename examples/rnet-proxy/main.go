// Command rnet-proxy is an example of package rnet: it carries the connections of programs for
// TCP, such as Redis or PostgreSQL, over RDMA. One proxy runs on the client's host, the other one on the
// server's.
//
//	rnet-proxy rdma :18522 tcp 127.0.0.1:6379          on the server's host: redis-server listens there
//	rnet-proxy tcp 127.0.0.1:6379 rdma 10.0.0.1:18522  on the client's host
//	redis-cli                                          on the client's host
//
// io.Copy moves the bytes between the ring and the socket without a buffer of its own. A half-close
// passes through.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"

	"github.com/rawverbs/rawverbs/rnet"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rnet-proxy:", err)
		os.Exit(1)
	}
}

// run listens on one network and connects to another one.
func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("try: rnet-proxy rdma ADDRESS tcp ADDRESS | tcp ADDRESS rdma ADDRESS")
	}
	ln, err := listen(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s %v\n", args[0], ln.Addr())
	return proxy(ctx, ln, func(ctx context.Context) (net.Conn, error) { return dial(ctx, args[2], args[3]) })
}

func listen(ctx context.Context, network, address string) (net.Listener, error) {
	if network == "rdma" {
		return new(rnet.ListenConfig).Listen(ctx, network, address)
	}
	return new(net.ListenConfig).Listen(ctx, network, address)
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "rdma" {
		return new(rnet.Dialer).DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// proxy connects each client of ln to a new connection of dial, until ctx ends.
func proxy(ctx context.Context, ln net.Listener, dial func(context.Context) (net.Conn, error)) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		client, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		clients.Go(func() {
			server, err := dial(ctx)
			if err != nil {
				fmt.Fprintln(os.Stderr, "rnet-proxy:", err)
				client.Close()
				return
			}
			join(ctx, client, server)
		})
	}
}

// join copies both ways until both directions have ended, or ctx ends.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var ways sync.WaitGroup
	ways.Go(func() { pass(a, b) })
	ways.Go(func() { pass(b, a) })
	ways.Wait()
	a.Close()
	b.Close()
}

// pass copies one direction. Its end passes on: a half-close as a half-close, a failure as the end
// of both connections.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	_ = to.(interface{ CloseWrite() error }).CloseWrite() // an error shows in the other direction too
}
