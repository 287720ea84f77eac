//go:build !rdma

package rc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce" // for soft0
	"github.com/rawverbs/rawverbs/verbs"
)

// A client SENDs a text to a server. Both run in this process, on the software
// device.
func Example() {
	ctx := context.Background()
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(ctx, l, dev)
	}()

	conn, err := rc.Dial(ctx, l.Addr().String(), rc.Config{Device: dev, Job: "greeting"})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	mr, err := conn.AllocMR("to send", 4096, verbs.AccessLocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	n := copy(mr.Bytes(), "hello over RDMA")
	err = conn.QP().PostSend([]verbs.SendWR{{
		ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(0, n)},
	}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := conn.WaitSend(ctx); err != nil {
		log.Fatal(err)
	}
	if err := conn.Finish(ctx); err != nil {
		log.Fatal(err)
	}
	<-done
	// Output: greeting: hello over RDMA
}

// serve takes one client and prints what it sends.
func serve(ctx context.Context, l *rc.Listener, dev *verbs.Device) {
	in, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	hello, err := in.Hello(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var mr *verbs.MR
	conn, err := in.Connect(ctx, rc.Config{Device: dev, Prepare: func(c *rc.Conn) (err error) {
		// The receive is posted before the peer can send.
		if mr, err = c.AllocMR("to receive", 4096, verbs.AccessLocalWrite); err != nil {
			return err
		}
		return c.QP().PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}})
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", hello.Job, mr.Bytes()[:wc.ByteLen])
	if err := conn.Finish(ctx); err != nil {
		log.Fatal(err)
	}
}
