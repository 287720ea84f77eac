//go:build !rdma

package verbs_test

import (
	"fmt"
	"log"
	"net/netip"

	_ "github.com/rawverbs/rawverbs/softroce" // for soft0
	"github.com/rawverbs/rawverbs/verbs"
)

// Choosing one of the addresses of a device's port.
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

// All steps by hand: the objects, the three moves, and a READ from a second queue pair of the same
// device. Package rc does this in one call, with a peer.
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

	// Two queue pairs of one device that are each other's peer.
	var qps [2]*verbs.QP
	for i := range qps {
		qps[i] = must(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))
		defer qps[i].Close()
	}
	gid, _, err := verbs.ChooseGID(must(dev.QueryGIDTable()), verbs.GIDSelection{})
	check(err)
	port := must(dev.QueryPort(gid.Port))
	endpoint := func(i int) verbs.QPEndpoint { // a real program sends this to the peer, with the GID
		return verbs.QPEndpoint{QPN: qps[i].QPN(), PSN: 100, MTU: port.ActiveMTU, InitiatorDepth: 1, ResponderResources: 1}
	}
	for i, qp := range qps {
		m := qp.Machine(nil)
		check(m.ToInit(verbs.QPAttr{PortNum: gid.Port, Access: verbs.AccessRemoteRead}))
		rtr, rts := endpoint(i).Connect(endpoint(1-i), gid.To(gid.GID))
		check(m.ToRTR(rtr))
		check(m.ToRTS(rts))
		fmt.Println(qp.State().Name())
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
	// RTS
	// RTS
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
