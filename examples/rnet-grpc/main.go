// Command rnet-grpc is an example of package rnet: gRPC over RDMA, with unary and streaming calls.
// It is a module of its own, because of its dependencies.
//
//	rnet-grpc serve :18523                       on one host
//	rnet-grpc upper 10.0.0.1:18523 "some text"   on others: a unary call
//	rnet-grpc count 10.0.0.1:18523 5             a stream from the server
//	rnet-grpc sum 10.0.0.1:18523 1 2 3           a stream in each direction: the sum after each number
//
// Only two lines differ from a program over TCP: the listener, and grpc.WithContextDialer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rawverbs/rawverbs/rnet"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rnet-grpc:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("try: rnet-grpc serve ADDRESS | upper ADDRESS TEXT | count ADDRESS N | sum ADDRESS N...")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == "serve" {
		ln, err := rnet.Listen("rdma", args[1])
		if err != nil {
			return err
		}
		return serve(ctx, ln)
	}
	if len(args) < 3 {
		return errUsage
	}
	cc, err := connect(args[1])
	if err != nil {
		return err
	}
	defer cc.Close()
	c := client{cc}
	switch args[0] {
	case "upper":
		text, err := c.upper(ctx, args[2])
		if err == nil {
			fmt.Fprintln(out, text)
		}
		return err
	case "count":
		n, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return errUsage
		}
		return c.count(ctx, n, func(i int64) { fmt.Fprintln(out, i) })
	case "sum":
		var numbers []int64
		for _, arg := range args[2:] {
			n, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return errUsage
			}
			numbers = append(numbers, n)
		}
		return c.sum(ctx, numbers, func(sum int64) { fmt.Fprintln(out, sum) })
	}
	return errUsage
}

// serve serves until ctx ends.
func serve(ctx context.Context, ln net.Listener) error {
	server := grpc.NewServer()
	server.RegisterService(&service, nil)
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	fmt.Fprintln(os.Stderr, "serving on", ln.Addr())
	return server.Serve(ln)
}

// connect returns a client connection to the server at host:port.
func connect(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return new(rnet.Dialer).DialContext(ctx, "rdma", address)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}
