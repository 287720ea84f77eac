//go:build !rdma

package verbs_test

import (
	"fmt"
	"log"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// The attributes of a device and its port, and what the device can do.
func ExampleDevice() {
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	info, attr, port := dev.Info(), must(dev.QueryEx()), must(dev.QueryPort(1))
	fmt.Println(info.Name, info.NodeType, info.Transport)
	fmt.Println("windows of type 2:", attr.Caps&verbs.CapMemWindowType2B != 0, "paging on demand:", attr.ODP.Supported)
	fmt.Printf("%v, %v, %d lanes, %g Gbit/s\n", port.State, port.LinkLayer, port.Lanes(), port.GbitPerSecond())
	gid := must(dev.QueryGID(1, 1))
	fmt.Println(gid.Type, "on", gid.Netdev, "- partition key", fmt.Sprintf("%#x", must(dev.QueryPKey(1, 0))))
	_, counts := must(dev.QueryCounters(1))["retransmits"]
	fmt.Println("counts retransmits:", counts)
	// Output:
	// soft0 IBV_NODE_CA IBV_TRANSPORT_IB
	// windows of type 2: true paging on demand: true
	// IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET, 1 lanes, 10 Gbit/s
	// IBV_GID_TYPE_ROCE_V2 on lo - partition key 0xffff
	// counts retransmits: true
}

// Regions of three kinds of memory: new, the program's own, and with addresses that count from 0. Some
// devices can change a region in place.
func ExampleMR() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()

	fresh := must(pd.AllocMR(4096, verbs.AccessLocalWrite))
	defer fresh.Close()
	own := must(pd.RegMR(make([]byte, 100), verbs.AccessLocalWrite|verbs.AccessRemoteRead)) // pinned until Close
	defer own.Close()
	zero := must(pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessZeroBased))
	defer zero.Close()
	fmt.Println(fresh.Len(), own.Len(), zero.SGE(64, 8).Addr)

	check(own.Rereg(verbs.Rereg{Flags: verbs.ReregAccess, Access: verbs.AccessLocalWrite}))
	fmt.Println(own.Access())

	_, err := pd.AllocMR(4096, verbs.AccessRemoteWrite)
	fmt.Println(err)
	// Output:
	// 4096 100 64
	// IBV_ACCESS_LOCAL_WRITE
	// ibv_reg_mr on soft0 (4096 bytes, REMOTE_WRITE without LOCAL_WRITE): EINVAL (22, invalid argument); try: give LOCAL_WRITE together with REMOTE_WRITE or REMOTE_ATOMIC, and a length the device can register
}

// A window grants the peer access to a part of a region. The peer's last message, a SEND that
// invalidates the window's key, ends that access.
func ExampleMW() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16}))
	defer cq.Close()
	owner, peer := connected(dev, pd, cq)
	defer owner.Close()
	defer peer.Close()
	mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessMWBind))
	defer mr.Close()
	mw := must(pd.AllocMW(verbs.MWType2))
	defer mw.Close()

	// The owner grants 16 bytes for writing, and waits for the peer's last message.
	bind := verbs.MWBind{MW: mw, MR: mr, RKey: verbs.IncRKey(mw.RKey()), Addr: mr.Addr() + 100, Length: 16, Access: verbs.AccessRemoteWrite}
	check(owner.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &bind}}))
	fmt.Println(next(cq).Opcode)
	check(owner.PostRecv([]verbs.RecvWR{{}}))

	// The peer, which received bind.Addr and bind.RKey, writes and then invalidates the key.
	copy(mr.Bytes()[2000:], "through a window")
	check(peer.PostSend([]verbs.SendWR{
		{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{mr.SGE(2000, 16)}, RemoteAddr: bind.Addr, RKey: bind.RKey},
		{Opcode: verbs.OpSendWithInvalidate, InvalidateRKey: bind.RKey},
	}))
	wc := next(cq)
	fmt.Println(wc.Opcode, wc.InvalidatedRKey() == bind.RKey, string(mr.Bytes()[100:116]))

	// Now the key grants nothing.
	check(peer.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{mr.SGE(0, 1)}, RemoteAddr: bind.Addr, RKey: bind.RKey}}))
	fmt.Println(next(cq).Status)
	// Output:
	// IBV_WC_BIND_MW
	// IBV_WC_RECV true through a window
	// IBV_WC_REM_ACCESS_ERR
}

// An address handle is the path of a datagram. The path back is in the datagram's completion and in
// the header at its beginning.
func ExampleAH() {
	dev := must(verbs.Open("soft0"))
	defer dev.Close()
	pd := must(dev.AllocPD())
	defer pd.Close()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 16}))
	defer cq.Close()
	mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite))
	defer mr.Close()
	const key = 0x1234
	asks, answers := datagramQP(pd, cq, key), datagramQP(pd, cq, key)
	defer asks.Close()
	defer answers.Close()

	gid := must(dev.QueryGID(1, 1)) // the peer is on the same device
	attr := verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: gid.GID, SGIDIndex: uint8(gid.Index), HopLimit: 64}}
	ah := must(pd.CreateAH(attr))
	defer ah.Close()
	question := mr.SGE(0, copy(mr.Bytes(), "who are you?"))
	check(answers.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(1000, verbs.GRHLen+100)}}}))
	check(asks.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(2000, verbs.GRHLen+100)}}}))
	check(asks.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{question}, AH: ah, RemoteQPN: answers.QPN(), RemoteQKey: key}}))
	wc := next(cq)
	check(wc.Err())
	grh, text := mr.Bytes()[1000:1000+verbs.GRHLen], mr.Bytes()[1000+verbs.GRHLen:1000+wc.ByteLen]
	fmt.Printf("%s, from %t\n", text, wc.SrcQPN == asks.QPN())

	back := must(pd.CreateAHFromWC(1, &wc, grh))
	defer back.Close()
	answer := mr.SGE(3000, copy(mr.Bytes()[3000:], "a queue pair"))
	check(answers.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{answer}, AH: back, RemoteQPN: wc.SrcQPN, RemoteQKey: key}}))
	wc = next(cq)
	fmt.Printf("%s\n", mr.Bytes()[2000+verbs.GRHLen:2000+wc.ByteLen])

	attr.GRH.SGIDIndex = 200 // an empty slot
	_, err := pd.CreateAH(attr)
	var why *verbs.Error
	if errors.As(err, &why) {
		fmt.Println(why.Op, why.Errno)
	}
	// Output:
	// who are you?, from true
	// a queue pair
	// ibv_create_ah no data available
}

// datagramQP makes a queue pair that any peer can send to.
func datagramQP(pd *verbs.PD, cq *verbs.CQ, key uint32) *verbs.QP {
	qp := must(pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	m := qpstate.NewMachine(verbs.UD, qp, nil)
	check(m.ToInit(verbs.QPAttr{PortNum: 1, QKey: key}))
	check(m.ToRTR(verbs.QPAttr{}))
	check(m.ToRTS(verbs.QPAttr{}))
	return qp
}

// connected makes two queue pairs that are each other's peer.
func connected(dev *verbs.Device, pd *verbs.PD, cq *verbs.CQ) (a, b *verbs.QP) {
	return examplePair(dev, pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
}

// next polls until there is a completion; CQ.Wait would sleep instead.
func next(cq *verbs.CQ) verbs.WC {
	var wcs [1]verbs.WC
	for must(cq.Poll(wcs[:])) == 0 {
	}
	return wcs[0]
}
