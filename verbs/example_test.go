//go:build !rdma

package verbs_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/rawverbs/rawverbs/qpstate"
	_ "github.com/rawverbs/rawverbs/softroce" // for soft0
	"github.com/rawverbs/rawverbs/verbs"
)

// A device's port and the way to choose one of its addresses.
func ExampleChooseGID() {
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	table, err := dev.QueryGIDTable()
	if err != nil {
		log.Fatal(err)
	}
	gid, why, err := verbs.ChooseGID(table, verbs.GIDSelection{Peer: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(gid.Index, gid.Type, why)
	// Output: 1 IBV_GID_TYPE_ROCE_V2 RoCE v2 of the peer's family, IPv4-mapped
}

// Everything by hand: objects, the three moves, a READ of the queue pair's own
// neighbour. Package rc does this in one call, with a peer.
func Example() {
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	ch := must(dev.CreateCompChannel())
	defer ch.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16, Channel: ch}))
	defer cq.Close()
	mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead))
	defer mr.Close()

	// Two queue pairs of one device, each the other's peer.
	var qps [2]*verbs.QP
	for i := range qps {
		qps[i] = must(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))
		defer qps[i].Close()
	}
	gid := must(dev.QueryGIDTable())[0]
	for i, qp := range qps {
		m := qpstate.NewMachine(verbs.RC, qp, func(s qpstate.Step) { fmt.Println(s.Name()) })
		check(m.ToInit(verbs.QPAttr{PortNum: 1, Access: verbs.AccessRemoteRead}))
		check(m.ToRTR(verbs.QPAttr{
			PathMTU: qpstate.MTU1024, DestQPN: qps[1-i].QPN(), RQPSN: 100, MaxDestRdAtomic: 1, MinRNRTimer: 12,
			AH: verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: gid.GID, SGIDIndex: uint8(gid.Index), HopLimit: 64}},
		}))
		check(m.ToRTS(verbs.QPAttr{SQPSN: 100, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}))
	}

	copy(mr.Bytes(), "read me")
	check(qps[0].PostSend([]verbs.SendWR{{
		Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(2048, 7)},
		RemoteAddr: mr.Addr(), RKey: mr.RKey(),
	}}))
	for {
		var wcs [4]verbs.WC
		if n := must(cq.Poll(wcs[:])); n > 0 { // Wait would sleep instead
			check(wcs[0].Err())
			fmt.Printf("%v: %s\n", wcs[0].Opcode, mr.Bytes()[2048:2048+7])
			break
		}
	}
	// Output:
	// RESET→INIT
	// INIT→RTR
	// RTR→RTS
	// RESET→INIT
	// INIT→RTR
	// RTR→RTS
	// IBV_WC_RDMA_READ: read me
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
