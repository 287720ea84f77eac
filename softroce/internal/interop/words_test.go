//go:build rdma && rxe

// Tests of ATOMIC WRITE in both directions, of FLUSH with rxe0 as the responder (rxe's provider
// in libibverbs has no FLUSH), and of multicast. They connect the queue pairs themselves,
// because package rc cannot post by the ibv_wr_* calls.

package interop

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// raw is one end of a connection made by hand.
type raw struct {
	t    *testing.T
	gid  verbs.GIDEntry
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	mr   *verbs.MR
	attr verbs.QPAttr
}

const flushable = all | verbs.AccessFlushGlobal

// newRaw returns an end on a device, at the device's address of the family.
func newRaw(t *testing.T, dev *verbs.Device, typ verbs.QPType, ipv4 bool, path verbs.PostPath) *raw {
	t.Helper()
	r := &raw{t: t}
	table, err := dev.QueryGIDTable()
	r.ok(err)
	for _, g := range table {
		if g.Type == verbs.GIDTypeRoCEv2 && g.GID.Addr().Is4() == ipv4 && !g.GID.Addr().IsLinkLocalUnicast() {
			r.gid = g
		}
	}
	r.pd = kept(r, must(dev.AllocPD()))
	channel := kept(r, must(dev.CreateCompChannel()))
	r.cq = kept(r, must(dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: channel})))
	r.mr = kept(r, must(r.pd.AllocMR(8192, flushable)))
	r.qp = kept(r, must(r.pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: r.cq, RecvCQ: r.cq, PostPath: path,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}})))
	r.attr = verbs.QPAttr{PortNum: 1, Access: flushable | verbs.AccessFlushPersistent, PathMTU: qpstate.MTU1024, QKey: qkey, RQPSN: 7, SQPSN: 7,
		MaxRdAtomic: 4, MaxDestRdAtomic: 4, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
	return r
}

const qkey = 0x11111111

// connect moves an end to RTS, connected to peer. It runs in the namespace of the end's device.
func (r *raw) connect(in func(func() error) error, peer *raw) {
	r.t.Helper()
	r.attr.DestQPN = peer.qp.QPN()
	r.attr.AH = verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: peer.gid.GID, SGIDIndex: uint8(r.gid.Index), HopLimit: 64}}
	m := qpstate.NewMachine(r.qp.Type(), r.qp, nil)
	r.ok(m.ToInit(r.attr))
	r.ok(in(func() error { return m.ToRTR(r.attr) }))
	r.ok(m.ToRTS(r.attr))
}

// ask posts a request to the peer's memory at off, and returns its completion.
func (r *raw) ask(wr verbs.SendWR, peer *raw, off int) verbs.WC {
	r.t.Helper()
	wr.Flags |= verbs.SendSignaled
	wr.RemoteAddr, wr.RKey = peer.mr.Addr()+uint64(off), peer.mr.RKey()
	r.ok(r.qp.PostSend([]verbs.SendWR{wr}))
	return r.wait()
}

func (r *raw) wait() verbs.WC {
	r.t.Helper()
	var wcs [1]verbs.WC
	_, err := r.cq.Wait(testkit.Context(r.t), wcs[:])
	r.ok(err)
	return wcs[0]
}

func (r *raw) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// kept returns an object and closes it when the test ends.
func kept[T interface{ Close() error }](r *raw, made func() (T, error)) T {
	r.t.Helper()
	object, err := made()
	r.ok(err)
	r.t.Cleanup(func() {
		if err := object.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return object
}

func must[T any](object T, err error) func() (T, error) {
	return func() (T, error) { return object, err }
}

// words returns an end on rxe0 and an end on the soft device.
func words(t *testing.T, ipv4 bool) (rxe, soft *raw) {
	rxe = newRaw(t, open(t, here, "rxe0"), verbs.RC, ipv4, verbs.PostWRAPI)
	soft = newRaw(t, open(t, inPeer, "soft:veth1"), verbs.RC, ipv4, verbs.PostAuto)
	rxe.connect(here, soft)
	soft.connect(inPeer, rxe)
	return rxe, soft
}

func TestAtomicWriteWithRxe(t *testing.T) {
	for name, ipv4 := range map[string]bool{"IPv4": true, "IPv6": false} {
		t.Run(name, func(t *testing.T) {
			rxe, soft := words(t, ipv4)
			for _, way := range []struct {
				name     string
				from, to *raw
			}{{"rxe requests", rxe, soft}, {"soft requests", soft, rxe}} {
				for i := range 20 {
					value := 0x1122334455667788 + uint64(i)
					binary.NativeEndian.PutUint64(way.from.mr.Bytes(), value)
					fill(way.to.mr.Bytes()[4080:4112])
					wc := way.from.ask(verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGL: []verbs.SGE{way.from.mr.SGE(0, 8)}}, way.to, 4088)
					if wc.Status != verbs.WCSuccess || wc.Opcode != verbs.WCAtomicWrite {
						t.Fatalf("%s: %+v", way.name, wc)
					}
					if got := binary.NativeEndian.Uint64(way.to.mr.Bytes()[4088:]); got != value {
						t.Errorf("%s: the word holds %#x, want %#x", way.name, got, value)
					}
				}
			}
		})
	}
}

// TestFlushOfRxe documents why FLUSH between the two does not work. Up to Linux 6.12 at least,
// rxe's ICRC of a FLUSH covers the headers twice, because rxe's table has no payload offset for
// FLUSH. rxe accepts a FLUSH with such an ICRC and drops one with the right ICRC. If this test
// fails, rxe has been fixed.
func TestFlushOfRxe(t *testing.T) {
	rxe, soft := words(t, false)
	wr := verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: verbs.FlushGlobal, Length: 1000}}
	if wc := soft.ask(wr, rxe, 16); wc.Status != verbs.WCRetryExcErr {
		t.Errorf("%+v", wc)
	}
}

// TestMulticastWithRxe sends to a group from both ends. The members at both ends must get a
// copy.
func TestMulticastWithRxe(t *testing.T) {
	for name, c := range map[string]struct {
		ipv4  bool
		group string
	}{"IPv4": {true, "239.77.1.2"}, "IPv6": {false, "ff1e::4d01"}} {
		t.Run(name, func(t *testing.T) {
			rxe := newRaw(t, open(t, here, "rxe0"), verbs.UD, c.ipv4, verbs.PostAuto)
			soft := newRaw(t, open(t, inPeer, "soft:veth1"), verbs.UD, c.ipv4, verbs.PostAuto)
			addr := netip.MustParseAddr(c.group)
			group := qpstate.GIDFrom(addr)
			ifi, err := net.InterfaceByName("veth0") // with rdma_rxe, the program itself must join the IP group
			rxe.ok(err)
			conn, err := net.ListenMulticastUDP("udp", ifi, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
			rxe.ok(err)
			defer conn.Close()
			for _, x := range []struct {
				*raw
				in func(func() error) error
			}{{rxe, here}, {soft, inPeer}} {
				x.connect(x.in, x.raw)
				x.ok(x.in(func() error { return x.qp.AttachMcast(group, 0) }))
				defer func() { x.ok(x.qp.DetachMcast(group, 0)) }()
			}
			for _, way := range []struct {
				from *raw
				in   func(func() error) error
			}{{rxe, here}, {soft, inPeer}} {
				for _, x := range []*raw{rxe, soft} {
					x.ok(x.qp.PostRecv([]verbs.RecvWR{{ID: 2, SGL: []verbs.SGE{x.mr.SGE(0, 200)}}}))
				}
				attr := way.from.attr.AH
				attr.GRH.DGID = group
				var ah *verbs.AH
				way.from.ok(way.in(func() (err error) {
					ah, err = way.from.pd.CreateAH(attr)
					return err
				}))
				defer ah.Close()
				fill(way.from.mr.Bytes()[1000:1104])
				way.from.ok(way.from.qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: ah,
					RemoteQPN: verbs.MulticastQPN, RemoteQKey: qkey, SGL: []verbs.SGE{way.from.mr.SGE(1000, 100)}}}))
				for _, x := range []*raw{rxe, soft} {
					want := []uint64{2}
					if x == way.from {
						want = append(want, 1) // the send's own completion, in any order
					}
					for range want {
						if wc := x.wait(); wc.Status != verbs.WCSuccess || wc.ID == 2 && (wc.ByteLen != 140 || wc.SrcQPN != way.from.qp.QPN()) {
							t.Errorf("%+v", wc)
						}
					}
					if !bytes.Equal(x.mr.Bytes()[40:140], way.from.mr.Bytes()[1000:1100]) {
						t.Error("another message arrived")
					}
				}
			}
		})
	}
}
