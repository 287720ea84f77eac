// Steps 1 to 4: from nothing to a queue pair in RTS.

package main

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// connect takes steps 1 to 4.
func (e *end) connect(ctx context.Context, device string, tcp *oob.Conn) error {
	dev := keep(e, func() (*verbs.Device, error) { return verbs.Open(device) })
	pd := keep(e, func() (*verbs.PD, error) { return dev.AllocPD() })
	channel := keep(e, func() (*verbs.CompChannel, error) { return dev.CreateCompChannel() })
	cq := func() (*verbs.CQ, error) { return dev.CreateCQ(verbs.CQInit{Depth: queued, Channel: channel}) }
	e.sends, e.recvs = keep(e, cq), keep(e, cq)
	e.mr = keep(e, func() (*verbs.MR, error) { return pd.AllocMR((1+queued)*size, verbs.AccessLocalWrite) })
	e.qp = keep(e, func() (*verbs.QP, error) {
		return pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.sends, RecvCQ: e.recvs,
			Cap: verbs.QPCap{MaxSendWR: queued, MaxRecvWR: queued, MaxSendSGE: 1, MaxRecvSGE: 1}})
	})
	if e.err != nil {
		return e.err
	}

	table, err := dev.QueryGIDTable()
	if err != nil {
		return err
	}
	gid, _, err := verbs.ChooseGID(table, verbs.GIDSelection{Local: ip(tcp.LocalAddr()), Peer: ip(tcp.RemoteAddr())})
	if err != nil {
		return err
	}
	port, err := dev.QueryPort(gid.Port)
	if err != nil {
		return err
	}
	machine := e.qp.Machine(nil)
	if err := machine.ToInit(verbs.QPAttr{PortNum: gid.Port}); err != nil {
		return err
	}
	for i := range queued {
		if err := e.postRecv(i); err != nil {
			return err
		}
	}

	local := verbs.QPEndpoint{QPN: e.qp.QPN(), PSN: rand.Uint32N(1 << 24), MTU: port.ActiveMTU}
	peer, err := tcp.ExchangeEndpoint(ctx, oob.Endpoint{QPType: oob.QPTypeRC, QPN: local.QPN, PSN: local.PSN,
		GID: gid.GID, LID: port.LID, MTU: local.MTU.Bytes()})
	if err != nil {
		return err
	}
	mtu, _ := verbs.MTUFor(peer.MTU) // oob has checked it
	way := gid.To(peer.GID)
	way.DLID = peer.LID // 0 except on InfiniBand
	rtr, rts := local.Connect(verbs.QPEndpoint{QPN: peer.QPN, PSN: peer.PSN, MTU: mtu}, way)
	if err := machine.ToRTR(rtr); err != nil {
		return err
	}
	if err := machine.ToRTS(rts); err != nil {
		return err
	}
	return tcp.Barrier(ctx, "in RTS")
}

func (e *end) postRecv(i int) error {
	return e.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{e.mr.SGE((1+i)*size, size)}}})
}

func ip(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }
