package oob_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// Both sides of a run in one program. A real program uses RDMA between the barriers.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	listener, err := oob.Listen(ctx, "127.0.0.1:0", oob.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()

	var server sync.WaitGroup
	server.Go(func() {
		conn, err := listener.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer conn.Close()
		if err := run(ctx, conn, oob.RoleServer, 4096); err != nil {
			log.Fatal(err)
		}
	})

	conn, err := oob.Dial(ctx, listener.Addr().String(), oob.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if err := run(ctx, conn, oob.RoleClient, 1024); err != nil {
		log.Fatal(err)
	}
	server.Wait()
	// Output: write with server: QPN 0x12, path MTU 1024, 4096 bytes at 0x7f0012345000
}

func run(ctx context.Context, conn *oob.Conn, role oob.Role, mtu int) error {
	peer, err := conn.Hello(ctx, oob.Hello{Role: role, Job: "write", Program: "example"})
	if err != nil {
		return err
	}
	local := oob.Endpoint{QPType: oob.QPTypeRC, QPN: 0x12, PSN: 0xabcdef, MTU: mtu}
	remote, err := conn.ExchangeEndpoint(ctx, local)
	if err != nil {
		return err
	}
	regions, err := conn.ExchangeRegions(ctx, []oob.Region{
		{Name: "buffer", Addr: 0x7f0012345000, RKey: 0x1a2b, Length: 4096},
	})
	if err != nil {
		return err
	}
	if role == oob.RoleClient {
		fmt.Printf("write with %v: QPN 0x%x, path MTU %d, %d bytes at 0x%x\n", peer.Role,
			remote.QPN, min(local.MTU, remote.MTU), regions[0].Length, regions[0].Addr)
	}
	if err := conn.Barrier(ctx, "in RTS"); err != nil {
		return err
	}
	return conn.Barrier(ctx, "done")
}

// The wait for RDMA ends as soon as the peer closes or fails.
func ExampleConn_Watch() {
	ctx := context.Background()
	a, b := net.Pipe()
	client, server := oob.NewConn(a, oob.Options{}), oob.NewConn(b, oob.Options{})
	defer client.Close()
	defer server.Close()

	watched, stop := client.Watch(ctx)
	defer stop()
	go server.Fail("poll", fmt.Errorf("IBV_WC_RETRY_EXC_ERR"))

	<-watched.Done() // a real program waits for a completion here
	fmt.Println(context.Cause(watched))
	// Output: oob: peer pipe failed at step "poll" and says: IBV_WC_RETRY_EXC_ERR; fix that at the peer, its output may say more
}
