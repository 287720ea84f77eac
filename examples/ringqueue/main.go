// Command ringqueue is an example of package rc: a queue from one program to another. Messages
// go straight into a ring in the consumer's memory, by RDMA WRITE with immediate.
//
//	ringqueue consume :18519 > copy            on one host
//	ringqueue produce 10.0.0.1:18519 < file    on the other
//
// The ring has four quarters of slots. Message n goes to slot n modulo the number of slots, and
// its immediate is its length. The consumer answers each quarter that it has emptied with an
// empty SEND. Before the producer enters a quarter again it waits for two things:
//   - that answer: the consumer has taken the messages and posted receives for new ones;
//   - the completion of its own last WRITE there: until then the device may read the producer's
//     copy of the slots, to send a lost packet again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	slotSize = 16 << 10
	quarter  = 16
	slots    = 4 * quarter
	job      = "ringqueue-64x16k" // both ends must mean the same ring
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	began := time.Now()
	bytes, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ringqueue:", err)
		os.Exit(1)
	}
	took := time.Since(began)
	fmt.Fprintf(os.Stderr, "%d bytes in %v, %.1f MB/s\n", bytes, took.Round(time.Millisecond), float64(bytes)/1e6/took.Seconds())
}

func run(ctx context.Context, args []string) (bytes int64, err error) {
	switch {
	case len(args) == 2 && args[0] == "produce":
		return produce(ctx, nil, args[1], os.Stdin)
	case len(args) == 2 && args[0] == "consume":
		listener, err := rc.Listen(ctx, args[1], rc.ListenConfig{Job: job})
		if err != nil {
			return 0, err
		}
		return consume(ctx, nil, listener, os.Stdout)
	}
	return 0, errors.New("try: ringqueue consume ADDRESS > FILE | produce ADDRESS < FILE")
}

// produce sends the bytes of in to the consumer at address and returns their number. A nil dev is the
// first device.
func produce(ctx context.Context, dev *verbs.Device, address string, in io.Reader) (bytes int64, err error) {
	conn, err := rc.Dial(ctx, address, rc.Config{
		Device: dev, Job: job, Cap: verbs.QPCap{MaxSendWR: slots + 1, MaxRecvWR: 4},
		Prepare: func(c *rc.Conn) error { return c.QP().PostRecv(make([]verbs.RecvWR, 4)) }, // for answers
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ring, ok := conn.PeerRegion("ring")
	if !ok || ring.Length != slots*slotSize {
		return 0, fmt.Errorf("the consumer shares no ring of %d bytes", slots*slotSize)
	}
	mr, err := conn.AllocMR("copy of the ring", slots*slotSize, verbs.AccessLocalWrite)
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if n%quarter == 0 && n >= slots {
			if err := awaitQuarter(ctx, conn); err != nil {
				return bytes, err
			}
		}
		offset := n % slots * slotSize
		length, err := io.ReadAtLeast(in, mr.Bytes()[offset:][:slotSize], 1)
		if err != nil && !errors.Is(err, io.EOF) {
			conn.TCP().Fail("read the input", err) // so that the consumer does not take it for the end
			return bytes, err
		}
		bytes += int64(length)
		if err := write(conn, n, mr.SGE(offset, length), ring, offset, length == 0); err != nil {
			return bytes, err
		}
		if length == 0 { // the end of the queue
			return bytes, errors.Join(awaitSend(ctx, conn, n), conn.Finish(ctx))
		}
	}
}

// write posts message n. The last message of each quarter and of the queue is signaled.
func write(conn *rc.Conn, n int, sge verbs.SGE, ring oob.Region, offset int, last bool) error {
	wr := verbs.SendWR{
		ID: uint64(n), Opcode: verbs.OpRDMAWriteWithImm, SGL: []verbs.SGE{sge},
		RemoteAddr: ring.Addr + uint64(offset), RKey: ring.RKey, Imm: sge.Length,
	}
	if n%quarter == quarter-1 || last {
		wr.Flags = verbs.SendSignaled
	}
	return conn.QP().PostSend([]verbs.SendWR{wr})
}

// awaitQuarter waits until the oldest quarter is free at both ends.
func awaitQuarter(ctx context.Context, conn *rc.Conn) error {
	if _, err := conn.WaitSend(ctx); err != nil {
		return err
	}
	if _, err := conn.WaitRecv(ctx); err != nil {
		return err
	}
	return conn.QP().PostRecv(make([]verbs.RecvWR, 1)) // for the next answer
}

// awaitSend waits until message n, and so all messages before it, are complete.
func awaitSend(ctx context.Context, conn *rc.Conn, n int) error {
	for {
		wc, err := conn.WaitSend(ctx)
		if err != nil || wc.ID == uint64(n) {
			return err
		}
	}
}

// consume writes one producer's messages to out and returns the number of bytes. A nil dev is the
// first device.
func consume(ctx context.Context, dev *verbs.Device, listener *rc.Listener, out io.Writer) (bytes int64, err error) {
	defer listener.Close()
	incoming, err := listener.Accept(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := incoming.Hello(ctx); err != nil {
		incoming.Refuse(err)
		return 0, err
	}
	var ring *verbs.MR
	conn, err := incoming.Connect(ctx, rc.Config{
		Device: dev, Access: verbs.AccessRemoteWrite, Cap: verbs.QPCap{MaxRecvWR: slots},
		Prepare: func(c *rc.Conn) (err error) {
			if ring, err = c.AllocMR("ring", slots*slotSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
				return err
			}
			c.Share("ring", ring)
			return c.QP().PostRecv(make([]verbs.RecvWR, slots)) // no memory: WRITE brings the data
		},
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for n := 0; ; n++ {
		wc, err := conn.WaitRecv(ctx)
		switch {
		case err != nil:
			return bytes, err
		case wc.Imm() == 0: // the end of the queue
			return bytes, conn.Finish(ctx)
		case wc.Imm() > slotSize:
			return bytes, fmt.Errorf("a message of %d bytes, and a slot has %d", wc.Imm(), slotSize)
		}
		message := ring.Bytes()[n%slots*slotSize:][:wc.Imm()]
		if _, err := out.Write(message); err != nil {
			conn.TCP().Fail("write the output", err)
			return bytes, err
		}
		bytes += int64(len(message))
		if n%quarter == quarter-1 {
			if err := conn.QP().PostRecv(make([]verbs.RecvWR, quarter)); err != nil {
				return bytes, err
			}
			if err := conn.Send(ctx, verbs.MRSlice{}); err != nil { // the quarter is free
				return bytes, err
			}
		}
	}
}
