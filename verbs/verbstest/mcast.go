// Multicast: datagrams to a group of UD queue pairs.

package verbstest

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// group returns a random multicast group, of the family of the device's route. If the kernel
// serves the device, a socket joins the IP group.
func (e *Env) group() verbs.GID {
	way := e.route().GRH
	addr := netip.AddrFrom4([4]byte{239, 77, byte(rand.Uint32()), byte(rand.Uint32())})
	if !way.DGID.Addr().Is4() {
		addr = netip.AddrFrom16([16]byte{0xff, 0x1e, 13: 77, 14: byte(rand.Uint32()), 15: byte(rand.Uint32())})
	}
	if e.Dev.Info().Provider == "libibverbs" {
		slot, err := e.Dev.QueryGID(onePort, int(way.SGIDIndex))
		e.ok(err, "QueryGID")
		ifi, err := net.InterfaceByName(slot.Netdev)
		e.ok(err, "the device's network interface")
		conn, err := net.ListenMulticastUDP("udp", ifi, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		made(e, conn, err)
	}
	return qpstate.GIDFrom(addr)
}

// member attaches an end to a group until the case ends.
func (x *end) member(group verbs.GID) {
	x.e.ok(x.qp.AttachMcast(group, 0), "AttachMcast")
	x.e.Cleanup(func() error {
		_ = x.qp.DetachMcast(group, 0) // the case may have detached it
		return nil
	})
}

// toGroup returns a datagram of n bytes to a group.
func (x *end) toGroup(group verbs.GID, n int) verbs.SendWR {
	way := x.e.route()
	way.GRH.DGID = group
	ah, err := x.pd.CreateAH(way)
	made(x.e, ah, err)
	return verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: x.sge(0, n), AH: ah,
		RemoteQPN: verbs.MulticastQPN, RemoteQKey: x.attr.QKey}
}

var mcastCases = []Case{
	{"multicast", "each member gets a copy, the sender too", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		c, d := e.ud()
		for _, x := range []*end{a, b, c} {
			x.member(group)
		}
		for _, x := range []*end{a, b, c, d} {
			x.receives(2, 1000, 200)
		}
		want := a.fill(0, 100)
		a.post(a.toGroup(group, 100))
		a.done()
		for i, x := range []*end{a, b, c} {
			wc := x.got()
			e.check(wc.SrcQPN == a.qp.QPN() && wc.QPN == x.qp.QPN() && int(wc.ByteLen) == grhBytes+100, "member %d: %+v", i, wc)
			e.same("the message", x.bytes(1000+grhBytes, 100), want)
		}
		for _, x := range []*end{a, b, c, d} {
			e.quiet(x.recv, "a second copy, or a copy for a queue pair that is not a member")
		}
	}},
	{"multicast", "the GRH has the group's address", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		b.member(group)
		b.receives(1, 0, 200)
		a.post(a.toGroup(group, 10))
		a.done()
		wc, grh := b.got(), b.bytes(0, grhBytes)
		e.check(wc.Flags&verbs.WCGRH != 0, "flags %v", wc.Flags)
		to := grh[24:]
		if group.Addr().Is4() {
			to = grh[36:]
		}
		e.same("the destination", to, group.Addr().AsSlice())
	}},
	{"multicast", "with immediate data, and many in a row", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		b.member(group)
		const many = 20
		b.receives(many, 0, 200)
		wr := a.toGroup(group, 10)
		wr.Opcode = verbs.OpSendWithImm
		for i := range many {
			wr.Imm = uint32(i)
			a.post(wr)
			a.done()
			got := b.got()
			e.check(got.Imm() == uint32(i), "message %d has immediate data %d", i, got.Imm())
		}
	}},
	{"multicast", "attaching twice changes nothing", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		b.member(group)
		b.member(group)
		b.receives(3, 0, 200)
		wr := a.toGroup(group, 10)
		a.post(wr)
		a.done()
		b.got()
		e.quiet(b.recv, "a second copy")
		e.ok(b.qp.DetachMcast(group, 0), "DetachMcast")
		a.post(wr)
		a.done()
		e.quiet(b.recv, "a copy for a detached queue pair")
	}},
	{"multicast", "members get only their own group's datagrams", func(e *Env) {
		one, two := e.group(), e.group()
		a, b := e.ud()
		c, _ := e.ud()
		b.member(one)
		c.member(two)
		c.member(one)
		e.ok(c.qp.DetachMcast(one, 0), "DetachMcast")
		for _, x := range []*end{b, c} {
			x.receives(2, 0, 200)
		}
		a.post(a.toGroup(one, 10))
		a.done()
		b.got()
		e.quiet(c.recv, "a copy of the other group's datagram")
		a.post(a.toGroup(two, 10))
		a.done()
		c.got()
		e.quiet(b.recv, "a copy of the other group's datagram")
	}},
	{"multicast", "a wrong QKEY is dropped", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		b.member(group)
		b.receives(1, 0, 200)
		wr := a.toGroup(group, 10)
		wr.RemoteQKey++
		a.post(wr)
		a.done()
		e.quiet(b.recv, "a wrong QKEY")
	}},
	{"multicast", "without a receive one member's copy is lost", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		c, _ := e.ud()
		b.member(group)
		c.member(group)
		c.receives(1, 0, 200)
		a.post(a.toGroup(group, 10))
		a.done()
		c.got()
		e.quiet(b.recv, "nothing")
		works(a, b)
	}},
	{"multicast", "MulticastQPN with a unicast address reaches no member", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		b.member(group)
		b.receives(1, 0, 200)
		wr := a.toGroup(group, 10)
		wr.AH = a.ah
		a.post(wr)
		a.done()
		e.quiet(b.recv, "a datagram that was not sent to the group")
	}},
	{"multicast", "refused: RC and UC, a GID of one device, a group not joined", func(e *Env) {
		group := e.group()
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
			qp := e.plainQP(typ)
			e.fails(qp.AttachMcast(group, 0), typ.Name(), syscall.EINVAL)
		}
		qp := e.plainQP(verbs.UD)
		e.fails(qp.AttachMcast(e.route().GRH.DGID, 0), "a unicast GID", syscall.EINVAL)
		e.fails(qp.DetachMcast(group, 0), "detaching from a group not joined", syscall.EINVAL)
	}},
	{"multicast", "a member cannot be closed", func(e *Env) {
		group := e.group()
		cq := e.cq(8)
		qp, err := e.pd().CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
		e.ok(err, "CreateQP")
		e.ok(qp.AttachMcast(group, 0), "AttachMcast")
		err = qp.Close()
		e.fails(err, "Close", syscall.EBUSY)
		e.says(err, "DetachMcast")
		e.ok(qp.DetachMcast(group, 0), "DetachMcast")
		e.ok(qp.Close(), "Close")
	}},
	{"multicast", "joined and left many times while datagrams arrive", func(e *Env) {
		group := e.group()
		a, b := e.ud()
		c, _ := e.ud()
		b.member(group)
		wr := a.toGroup(group, 10)
		const rounds = 30
		b.receives(rounds, 0, 200)
		for range rounds {
			e.ok(c.qp.AttachMcast(group, 0), "AttachMcast")
			a.post(wr)
			a.done()
			e.ok(c.qp.DetachMcast(group, 0), "DetachMcast")
		}
		for range rounds {
			b.got()
		}
	}},
}
