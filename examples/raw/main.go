// Command raw is an example of packages verbs and oob without package rc. It has every step that
// connects two queue pairs. The client measures round trips of small messages.
//
//		raw server :18520                  on one host
//		raw client 10.0.0.1:18520 rxe0     on the other; without a device, the first one
//
//	 1. Open a device and make the objects: PD, completion channel, CQs, memory, queue pair.
//	 2. Move the queue pair RESET→INIT and post receives.
//	 3. Exchange endpoints over TCP: QPN, PSN, GID, MTU.
//	 4. Move it INIT→RTR→RTS with the peer's endpoint, and meet the peer in a barrier.
//	 5. Post, wait, post again.
//	 6. Meet the peer again, so that no end destroys its queue pair too early, and free everything.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/oob"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	rounds = 1000
	size   = 64 // bytes of a message
	queued = 8  // receives that stay posted
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "raw:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 || args[0] != "server" && args[0] != "client" {
		return errors.New("try: raw server ADDRESS [DEVICE] | client ADDRESS [DEVICE]")
	}
	device := append(args, "")[2]
	if args[0] == "server" {
		listener, err := oob.Listen(ctx, args[1], oob.Options{})
		if err != nil {
			return err
		}
		return serve(ctx, device, listener)
	}
	each, err := measure(ctx, device, args[1])
	if err == nil {
		fmt.Printf("%d round trips of %d bytes, %.1f µs each\n", rounds, size, float64(each.Nanoseconds())/1e3)
	}
	return err
}

// serve answers each message of one client.
func serve(ctx context.Context, device string, listener *oob.Listener) error {
	defer listener.Close()
	tcp, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	_, err = talk(ctx, device, tcp, oob.RoleServer)
	return err
}

// measure returns the time of one round trip.
func measure(ctx context.Context, device, address string) (each time.Duration, err error) {
	tcp, err := oob.Dial(ctx, address, oob.Options{})
	if err != nil {
		return 0, err
	}
	return talk(ctx, device, tcp, oob.RoleClient)
}

// end is one end of a connection.
type end struct {
	sends, recvs *verbs.CQ
	mr           *verbs.MR // one message to send, then one for each receive
	qp           *verbs.QP
	made         []io.Closer // to be closed, the last first
	err          error       // the first failure of keep
}

// keep makes an object that talk closes. After a failure it makes nothing.
func keep[T io.Closer](e *end, make func() (T, error)) (object T) {
	if e.err == nil {
		if object, e.err = make(); e.err == nil {
			e.made = append(e.made, object)
		}
	}
	return object
}

// talk connects a queue pair, does all rounds and frees everything. It returns the time of a
// round.
func talk(ctx context.Context, device string, tcp *oob.Conn, role oob.Role) (each time.Duration, err error) {
	e := &end{made: []io.Closer{tcp}}
	defer func() {
		if err != nil {
			tcp.Fail("talk", err) // the peer prints why
		}
		for _, object := range slices.Backward(e.made) {
			err = errors.Join(err, object.Close())
		}
	}()
	if _, err := tcp.Hello(ctx, oob.Hello{Role: role, Job: "raw"}); err != nil {
		return 0, err
	}
	if err := e.connect(ctx, device, tcp); err != nil {
		return 0, err
	}
	began := time.Now()
	watched, stop := tcp.Watch(ctx) // ends if the peer dies
	defer stop()
	for range rounds {
		if err := e.round(watched, role == oob.RoleClient); err != nil {
			return 0, err
		}
	}
	each = time.Since(began) / rounds
	stop()
	return each, tcp.Barrier(ctx, "done")
}

// round sends one message and receives one; the client sends first.
func (e *end) round(ctx context.Context, first bool) error {
	if first {
		if err := e.send(ctx); err != nil {
			return err
		}
	}
	wc, err := wait(ctx, e.recvs)
	if err != nil {
		return err
	}
	if err := e.postRecv(int(wc.ID)); err != nil || first {
		return err
	}
	return e.send(ctx)
}

// send sends one message and waits until its memory is free again.
func (e *end) send(ctx context.Context) error {
	err := e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(0, size)}}})
	if err == nil {
		_, err = wait(ctx, e.sends)
	}
	return err
}

func wait(ctx context.Context, cq *verbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return verbs.WC{}, err
	}
	return wcs[0], wcs[0].Err()
}
