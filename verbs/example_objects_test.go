//go:build !rdma

package verbs_test

import (
	"context"
	"fmt"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// A queue pair can use only the memory of its own domain. A domain cannot be closed before its
// objects.
func ExamplePD() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16}))
	defer cq.Close()
	pd, other := must(dev.AllocPD()), must(dev.AllocPD())
	a, b := connected(dev, pd, cq)
	own := must(pd.AllocMR(4096, verbs.AccessLocalWrite))
	foreign := must(other.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite))

	fmt.Println(pd.Close())

	check(a.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{own.SGE(0, 8)}, RemoteAddr: foreign.Addr(), RKey: foreign.RKey()}}))
	fmt.Println(next(cq).Status)

	for _, close := range []func() error{a.Close, b.Close, own.Close, foreign.Close, pd.Close, other.Close} {
		check(close())
	}
	// Output:
	// ibv_dealloc_pd on soft0 (the PD has living children: 1 MR, 2 QP): EBUSY (16, device or resource busy); try: close those first
	// IBV_WC_REM_ACCESS_ERR
}

// A program without other work polls for completions. With a channel it can sleep instead.
func ExampleCQ() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	ch := must(dev.CreateCompChannel())
	defer ch.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16, Channel: ch}))
	from, to := connected(dev, pd, cq)

	check(to.PostRecv([]verbs.RecvWR{{ID: 7}}))
	check(from.PostSend([]verbs.SendWR{{ID: 8, Opcode: verbs.OpSendWithImm, Imm: 0xcafe}})) // not signaled: no completion

	wcs := make([]verbs.WC, 4)
	n := must(cq.Wait(context.Background(), wcs)) // Poll, if it need not sleep
	for _, wc := range wcs[:n] {
		check(wc.Err())
		fmt.Printf("%v of request %d: immediate %#x\n", wc.Opcode, wc.ID, wc.Imm())
	}
	n = must(cq.Poll(wcs))
	fmt.Println("more:", n)

	ctx, giveUp := context.WithCancelCause(context.Background())
	giveUp(errors.New("nobody else will write"))
	_, err := cq.Wait(ctx, wcs)
	fmt.Println(err)

	check(from.Close())
	check(to.Close())
	check(cq.Close()) // a waiting goroutine wakes with net.ErrClosed
	_, err = cq.Poll(wcs)
	fmt.Println(err)
	// Output:
	// IBV_WC_RECV of request 7: immediate 0xcafe
	// more: 0
	// nobody else will write
	// ibv_poll_cq on soft0: the CQ is closed; try: close it only after its last use
}

// One channel serves many CQs: each wait gets the events of its own CQ.
func ExampleCompChannel() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	ch := must(dev.CreateCompChannel())
	defer ch.Close()
	sends := must(dev.CreateCQ(verbs.CQInit{Depth: 16, Channel: ch}))
	defer sends.Close()
	recvs := must(dev.CreateCQ(verbs.CQInit{Depth: 16, Channel: ch}))
	defer recvs.Close()
	from, to := examplePair(dev, pd, verbs.QPInit{Type: verbs.RC, SendCQ: sends, RecvCQ: recvs, SigAll: true,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	defer from.Close()
	defer to.Close()
	fmt.Println(ch.Close())

	received := make(chan verbs.WC)
	go func() { // sleeps, and holds no thread
		var wcs [1]verbs.WC
		must(recvs.Wait(context.Background(), wcs[:]))
		received <- wcs[0]
	}()
	check(to.PostRecv([]verbs.RecvWR{{ID: 1}}))
	check(from.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend}}))
	var wcs [1]verbs.WC
	must(sends.Wait(context.Background(), wcs[:]))
	fmt.Println(wcs[0].Opcode, wcs[0].ID)
	wc := <-received
	fmt.Println(wc.Opcode, wc.ID)
	// Output:
	// ibv_destroy_comp_channel on soft0 (the completion channel has living children: 2 CQ): EBUSY (16, device or resource busy); try: close those first
	// IBV_WC_SEND 2
	// IBV_WC_RECV 1
}

// The life of a queue pair. A refused move returns the reason. A refused post names the request. In
// ERR the queued requests complete with a flush status.
func ExampleQP() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16}))
	defer cq.Close()
	qp := must(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	defer qp.Close()

	err := qp.Modify(&verbs.QPAttr{State: qpstate.Init, PortNum: 1}, qpstate.MaskState|qpstate.MaskPort)
	var why *qpstate.TransitionError
	fmt.Println(errors.As(err, &why), errors.Is(err, syscall.EINVAL), "missing:", why.Missing)

	m := qpstate.NewMachine(verbs.RC, qp, func(s qpstate.Step) { fmt.Println(s) }) // takes the masks from the table
	check(m.ToInit(verbs.QPAttr{PortNum: 1, Access: verbs.AccessRemoteRead}))

	err = qp.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}, {ID: 3}})
	var refused *verbs.PostError
	fmt.Println(errors.As(err, &refused), "refused:", refused.Index, errors.Is(err, syscall.ENOMEM))

	check(m.ToError())
	for range 2 {
		wc := next(cq)
		fmt.Println(wc.ID, wc.Status)
	}
	attr := must(qp.Query(qpstate.MaskState))
	fmt.Println(attr.State)
	// Output:
	// true true missing: IBV_QP_ACCESS_FLAGS|IBV_QP_PKEY_INDEX
	// RC RESET→INIT mask 0x39 (STATE|ACCESS_FLAGS|PKEY_INDEX|PORT): ACCESS_FLAGS=REMOTE_READ PKEY_INDEX=0 PORT=1
	// true refused: 2 true
	// RC INIT→ERR mask 0x1 (STATE)
	// 1 IBV_WC_WR_FLUSH_ERR
	// 2 IBV_WC_WR_FLUSH_ERR
	// IBV_QPS_ERR
}

// Events report what no completion of this side shows. Here the peer uses memory without a right to
// it, which moves both queue pairs to ERR.
func ExampleDevice_Subscribe() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	events := make(chan verbs.AsyncEvent, 16)
	cancel := dev.Subscribe(func(e verbs.AsyncEvent) { events <- e }) // must not block
	defer cancel()
	pd := must(dev.AllocPD())
	defer pd.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16}))
	defer cq.Close()
	peer, qp := connected(dev, pd, cq)
	defer peer.Close()
	defer qp.Close()
	mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite)) // without remote rights
	defer mr.Close()

	check(peer.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.LKey()}}))
	e := <-events
	fmt.Println(e.Type, e.QPN == qp.QPN(), "fatal:", e.Fatal())
	fmt.Println(next(cq).Status) // of the peer's request
	// Output:
	// IBV_EVENT_QP_ACCESS_ERR true fatal: true
	// IBV_WC_REM_ACCESS_ERR
}
