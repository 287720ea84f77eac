//go:build !rdma

package verbs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Two queue pairs take their receives from one SRQ. An event says that few receives are left.
func ExampleSRQ() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	low := make(chan verbs.AsyncEvent, 8)
	defer dev.Subscribe(func(e verbs.AsyncEvent) { low <- e })()
	pd := must(dev.AllocPD())
	defer pd.Close()
	ch := must(dev.CreateCompChannel())
	defer ch.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: ch}))
	defer cq.Close()
	mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite))
	defer mr.Close()

	srq := must(pd.CreateSRQ(verbs.SRQInit{MaxWR: 16, MaxSGE: 1}))
	defer srq.Close()
	for i := range 4 {
		check(srq.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{mr.SGE(i*64, 64)}}}))
	}
	check(srq.Modify(verbs.SRQAttr{Limit: 3}, verbs.SRQLimit)) // an event when fewer than 3 remain

	for _, text := range []string{"from one", "from another"} {
		from, to := examplePair(dev, pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq,
			Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
		defer from.Close()
		defer to.Close()
		n := copy(mr.Bytes()[1024:], text)
		check(from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(1024, n)}}}))
		wcs := make([]verbs.WC, 1)
		must(cq.Wait(context.Background(), wcs))
		check(wcs[0].Err())
		fmt.Printf("receive %d of the SRQ: %s; of its queue pair: %t\n", wcs[0].ID, mr.Bytes()[wcs[0].ID*64:][:wcs[0].ByteLen], wcs[0].QPN == to.QPN())
	}
	event := <-low
	fmt.Println(event, srq.Is(event))
	// Output:
	// receive 0 of the SRQ: from one; of its queue pair: true
	// receive 1 of the SRQ: from another; of its queue pair: true
	// IBV_EVENT_SRQ_LIMIT_REACHED on an SRQ true
}

// A loop over completions, with a deadline.
func ExampleCQ_Completions() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	ch := must(dev.CreateCompChannel())
	defer ch.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: ch}))
	defer cq.Close()
	from, to := examplePair(dev, pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	defer from.Close()
	defer to.Close()
	check(to.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}, {ID: 3}}))
	check(from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Imm: 10}, {Opcode: verbs.OpSendWithImm, Imm: 20}, {Opcode: verbs.OpSendWithImm, Imm: 30}}))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for wc, err := range cq.Completions(ctx) {
		if err != nil {
			log.Fatal(err) // the deadline has passed, or cq was closed; the loop ends
		}
		check(wc.Err())
		fmt.Println(wc.ID, wc.Imm())
		if wc.ID == 3 {
			break
		}
	}
	// Output:
	// 1 10
	// 2 20
	// 3 30
}

// An extended CQ reports the time of each completion. Moderation delays events, so that one event
// stands for many completions.
func ExampleCQ_PollEx() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	ch := must(dev.CreateCompChannel())
	defer ch.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16, Channel: ch, Ex: verbs.WCExStandard | verbs.WCExTimestamp | verbs.WCExWallclock}))
	defer cq.Close()
	check(cq.Resize(128))
	check(cq.Moderate(2, 10*time.Millisecond)) // errors.ErrUnsupported on some devices
	from, to := examplePair(dev, pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	defer from.Close()
	defer to.Close()
	check(to.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}}))
	began := time.Now()
	check(from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}, {Opcode: verbs.OpSend}}))

	var last verbs.WCEx
	wcs := make([]verbs.WCEx, 16)
	for last.ID != 2 {
		n := must(cq.WaitFor(context.Background(), nil, verbs.WaitOptions{Ex: wcs})) // PollEx, and sleeping
		for _, wc := range wcs[:n] {
			check(wc.Err())
			fmt.Println(wc.ID, wc.Timestamp >= last.Timestamp, wc.Wallclock().After(began.Add(-time.Hour)))
			last = wc
		}
	}
	fmt.Println(cq.Depth())
	// Output:
	// 1 true true
	// 2 true true
	// 128
}

// examplePair makes two connected RC queue pairs.
func examplePair(dev *verbs.Device, pd *verbs.PD, init verbs.QPInit) (from, to *verbs.QP) {
	from, to = must(pd.CreateQP(init)), must(pd.CreateQP(init))
	gid := must(dev.QueryGIDTable())[0]
	for _, end := range []struct{ qp, peer *verbs.QP }{{from, to}, {to, from}} {
		m := qpstate.NewMachine(verbs.RC, end.qp, nil)
		check(m.ToInit(verbs.QPAttr{PortNum: 1, Access: verbs.AccessRemoteWrite}))
		check(m.ToRTR(verbs.QPAttr{
			PathMTU: qpstate.MTU1024, DestQPN: end.peer.QPN(), RQPSN: 100, MinRNRTimer: 12,
			AH: verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: gid.GID, SGIDIndex: uint8(gid.Index), HopLimit: 64}},
		}))
		check(m.ToRTS(verbs.QPAttr{SQPSN: 100, Timeout: 14, RetryCnt: 7, RNRRetry: 7}))
	}
	return from, to
}
