//go:build !rdma

package rc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce" // for soft0
	"github.com/rawverbs/rawverbs/verbs"
)

// A client writes into the server's memory, reads it back, and counts with an atomic. Each request is
// one call, which returns when the request has completed.
func ExampleConn_Write() {
	ctx := context.Background()
	client, server := connect(ctx)
	defer server.Close()
	defer client.Close()
	table, _ := client.PeerRegion("table")
	mr, err := client.AllocMR("local", 4096, verbs.AccessLocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	n := copy(mr.Bytes(), "one-sided")
	if err := client.Write(ctx, mr.Slice(0, n), table, 64); err != nil {
		log.Fatal(err)
	}
	if err := client.Read(ctx, mr.Slice(1024, n), table, 64); err != nil {
		log.Fatal(err)
	}
	before, err := client.FetchAdd(ctx, table, 0, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d before\n", mr.Bytes()[1024:1024+n], before)
	fmt.Println(client.Read(ctx, mr.Slice(0, n), table, 4090))
	// Output:
	// one-sided, 0 before
	// IBV_WR_RDMA_READ: 9 bytes at offset 4090 are not within the peer's region "table" of 4096 bytes; try: fewer bytes, or a larger region
}

// A wait ends before its request does. The request's memory belongs to the device until
// InFlightError.Wait returns.
func ExampleInFlightError() {
	ctx := context.Background()
	client, server := connect(ctx)
	defer server.Close()
	defer client.Close()
	mr, err := client.AllocMR("local", 4096, verbs.AccessLocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	var flying *rc.InFlightError
	for limit := 10 * time.Millisecond; !errors.As(err, &flying); limit *= 2 { // again if it ended before the post
		short, cancel := context.WithTimeout(ctx, limit)
		err = client.Send(short, mr.Slice(0, 64)) // the server has posted no receive
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			log.Fatal(err)
		}
	}
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	inbox, err := server.AllocMR("inbox", 4096, verbs.AccessLocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := server.Recv(ctx, inbox.Slice(0, 64)); err != nil {
		log.Fatal(err)
	}
	wc, err := flying.Wait(ctx)
	fmt.Println(wc.Status, err)
	// Output:
	// true
	// IBV_WC_SUCCESS <nil>
}

// connect connects two ends in this process. The server shares 4096 bytes as "table".
func connect(ctx context.Context) (client, server *rc.Conn) {
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *rc.Conn)
	go func() {
		in, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := in.Hello(ctx); err != nil {
			log.Fatal(err)
		}
		rights := verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
		conn, err := in.Connect(ctx, rc.Config{Access: rights, Prepare: func(c *rc.Conn) error {
			mr, err := c.AllocMR("table", 4096, verbs.AccessLocalWrite|rights)
			if err == nil {
				c.Share("table", mr)
			}
			return err
		}})
		if err != nil {
			log.Fatal(err)
		}
		accepted <- conn
	}()
	client, err = rc.Dial(ctx, l.Addr().String(), rc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return client, <-accepted
}
