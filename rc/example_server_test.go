//go:build !rdma

package rc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// A cache of 8-byte values. The server registers its table once. Clients READ the table without the
// server's help, and SEND the values to store.
func ExampleServer() {
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	const puts, size = 32, 16 // receives, and bytes of each: index and value
	var table, inbox *verbs.MR
	var server *rc.Server
	post := func(id uint64) error {
		return server.SRQ().PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{inbox.SGE(int(id)*size, size)}}})
	}
	server, err = rc.NewServer(rc.ServerConfig{
		MaxConns: 8,
		Config: rc.Config{
			Device: dev, Access: verbs.AccessRemoteRead, SRQ: &verbs.SRQInit{MaxWR: puts, MaxSGE: 1},
			Prepare: func(c *rc.Conn) error { c.Share("table", table); return nil },
		},
		Unread: func(wc verbs.WC) { _ = post(wc.ID) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if table, err = server.AllocMR("table", 1<<20, verbs.AccessLocalWrite|verbs.AccessRemoteRead); err != nil {
		log.Fatal(err)
	}
	if inbox, err = server.AllocMR("inbox", puts*size, verbs.AccessLocalWrite); err != nil {
		log.Fatal(err)
	}
	for id := range puts {
		if err := post(uint64(id)); err != nil {
			log.Fatal(err)
		}
	}
	l, err := rc.Listen(context.Background(), "127.0.0.1:0", rc.ListenConfig{Job: "cache"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(ctx, l, func(ctx context.Context, c *rc.Conn) error {
			for {
				wc, err := c.WaitRecv(ctx)
				if errors.As(err, new(*verbs.WCError)) { // a failed receive has left the SRQ too
					return errors.Join(err, post(wc.ID))
				}
				if err != nil {
					return err // io.EOF once the client has finished
				}
				put := inbox.Bytes()[wc.ID*size:][:size]
				copy(table.Bytes()[8*binary.NativeEndian.Uint64(put):], put[8:])
				if err := post(wc.ID); err != nil {
					return err
				}
			}
		})
	}()

	if err := useCache(l.Addr().String(), dev); err != nil {
		log.Fatal(err)
	}
	stop()
	fmt.Println("the server stopped:", <-served)
	// Output:
	// value 7 is 42
	// the server stopped: <nil>
}

// useCache puts a value, and gets it.
func useCache(address string, dev *verbs.Device) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := rc.Dial(ctx, address, rc.Config{Device: dev, Job: "cache"})
	if err != nil {
		return err
	}
	defer c.Close()
	mr, err := c.AllocMR("buffer", 16, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(mr.Bytes(), 7)
	binary.NativeEndian.PutUint64(mr.Bytes()[8:], 42)
	if err := c.Send(ctx, mr.Slice(0, 16)); err != nil {
		return err
	}
	table, _ := c.PeerRegion("table")
	for value := mr.Bytes()[:8]; ; { // until the server has handled the put
		if err := c.Read(ctx, mr.Slice(0, 8), table, 7*8); err != nil {
			return err
		}
		if n := binary.NativeEndian.Uint64(value); n != 0 {
			fmt.Println("value 7 is", n)
			return c.Finish(ctx)
		}
	}
}
