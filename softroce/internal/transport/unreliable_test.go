package transport

import (
	"bytes"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

func ucOptions() options {
	o := defaults()
	o.kind = verbs.UC
	return o
}

func TestUC(t *testing.T) {
	for _, n := range sizes {
		sim, a, b := pair(t, 1, ucOptions())
		fill(a.mem[:n], n)
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, 20000)}}, verbs.RecvWR{ID: 2})
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSendWithImm, Imm: 9, SGL: []verbs.SGE{a.sge(0, n)}},
			verbs.SendWR{ID: 2, Opcode: verbs.OpRDMAWriteWithImm, SGL: []verbs.SGE{a.sge(0, n)}, RemoteAddr: b.mr.Addr() + 30000, RKey: b.mr.RKey()})
		a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
		a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
		if wc := b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv); int(wc.ByteLen) != n || wc.Imm() != 9 {
			t.Errorf("length %d, immediate %d", wc.ByteLen, wc.Imm())
		}
		b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecvRDMAWithImm)
		if !bytes.Equal(a.mem[:n], b.mem[:n]) || !bytes.Equal(a.mem[:n], b.mem[30000:30000+n]) {
			t.Error("the peer received other bytes than were sent")
		}
		sim.settle()
	}
}

// TestUCLoss drops one packet of every third message. The other messages arrive. The receive of
// the incomplete message is used for the next one.
func TestUCLoss(t *testing.T) {
	for lost := range 4 {
		sim, a, b := pair(t, 1, ucOptions())
		n := 0
		sim.tap = func(*simnode, *simnode, []byte) bool { n++; return (n-1)%12 != lost }
		const messages = 30
		for i := range messages {
			b.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{b.sge(0, 4096)}})
		}
		for i := range messages {
			a.send(verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: uint32(i), SGL: []verbs.SGE{a.sge(0, 4096)}})
			sim.settle()
		}
		id := uint64(0)
		for i := range messages {
			if i%3 == 0 {
				continue
			}
			if wc := b.want(b.rcq, id, verbs.WCSuccess, verbs.WCRecv); wc.Imm() != uint32(i) {
				t.Errorf("message %d arrived, want %d", wc.Imm(), i)
			}
			id++
		}
	}
}

func TestUCErrors(t *testing.T) {
	sim, a, b := pair(t, 1, ucOptions())
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend}, // no receive is posted
		verbs.SendWR{ID: 2, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: b.mr.Addr()}) // this rkey does not exist
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
	a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
	sim.settle()
	b.wantState(qpstate.RTS)
	e := b.node.engine
	if e.Counter(DropNoReceive) != 1 || e.Counter(DropUnreliable) != 3 {
		t.Errorf("dropped %d, %d", e.Counter(DropNoReceive), e.Counter(DropUnreliable))
	}

	// A failed send moves the queue pair to SQE, and the program moves it back to RTS.
	a.send(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1}}}, verbs.SendWR{ID: 4, Opcode: verbs.OpSend})
	a.want(a.scq, 3, verbs.WCLocProtErr, 0)
	a.want(a.scq, 4, verbs.WCWRFlushErr, 0)
	a.wantState(qpstate.SQE)
	a.send(verbs.SendWR{ID: 5, Opcode: verbs.OpSend})
	a.want(a.scq, 5, verbs.WCWRFlushErr, 0)
	a.modify(qpstate.Attr{State: qpstate.RTS}, 0)
	b.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	a.send(verbs.SendWR{ID: 6, Opcode: verbs.OpSend})
	b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)

}

// ahProvider is a minimal provider of verbs objects that work requests refer to: a *verbs.AH, a
// *verbs.MW and a *verbs.MR.
type ahProvider struct{}

// ahDevice is open once, because to open a device takes longer than most tests here.
type ahDevice struct{ verbs.ProviderDevice }

type ahPD struct {
	verbs.ProviderPD
	pd *PD
}

func (ahProvider) Name() string { return "transport test" }
func (ahProvider) Devices() ([]verbs.DeviceInfo, error) {
	return []verbs.DeviceInfo{{Name: ahDeviceName}}, nil
}
func (ahProvider) Open(string) (verbs.ProviderDevice, error)     { return ahDevice{}, nil }
func (ahDevice) AllocPD() (verbs.ProviderPD, error)              { return ahPD{pd: nextPD}, nil }
func (p ahPD) CreateAH(a verbs.AHAttr) (verbs.ProviderAH, error) { return p.pd.CreateAH(a) }
func (p ahPD) Close() error                                      { return nil }
func (p ahPD) AllocMW(t verbs.MWType) (verbs.ProviderMW, error)  { return p.pd.AllocMW(t) }
func (p ahPD) RegMR(buf []byte, base uint64, access verbs.Access) (verbs.ProviderMR, error) {
	return p.pd.RegisterAt(buf, base, access)
}

const ahDeviceName = "transport-test"

var (
	nextPD    *PD // of the next AllocPD
	theDevice = sync.OnceValues(func() (*verbs.Device, error) {
		verbs.Register(ahProvider{})
		return verbs.Open(ahDeviceName)
	})
)

// verbsPD returns a *verbs.PD for the end's domain.
func (e *end) verbsPD() *verbs.PD {
	tb := e.node.net.tb
	tb.Helper()
	dev, err := theDevice()
	if err != nil {
		tb.Fatal(err)
	}
	nextPD = e.pd
	pd, err := dev.AllocPD()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { pd.Close() })
	return pd
}

// ah returns an address handle of another end.
func (e *end) ah(peer *end) *verbs.AH {
	tb := e.node.net.tb
	tb.Helper()
	attr := verbs.AHAttr{IsGlobal: true, PortNum: 1}
	attr.GRH.DGID = qpstate.GIDFrom(peer.node.addr)
	ah, err := e.verbsPD().CreateAH(attr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ah.Close() })
	return ah
}

func udOptions() options {
	o := defaults()
	o.kind = verbs.UD
	return o
}

func udPair(t *testing.T, addrs ...string) (*simnet, *end, *end) {
	return udPairWith(t, udOptions(), addrs...)
}

func udPairWith(t *testing.T, o options, addrs ...string) (*simnet, *end, *end) {
	n := newSimnet(t, 1)
	a, b := n.node(addrs[0]).end(o), n.node(addrs[1]).end(o)
	a.connect(b)
	b.connect(a)
	return n, a, b
}

func TestUD(t *testing.T) {
	for _, c := range []struct {
		from, to string
		zeros    int  // leading zeros of the GRH
		version  byte // first byte after the zeros
	}{
		{"10.0.0.1", "10.0.0.2", 20, 0x45},
		{"fd00::1", "fd00::2", 0, 0x60},
	} {
		sim, a, b := udPair(t, c.from, c.to)
		ah := a.ah(b)
		fill(a.mem, 1)
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, 30), b.sge(100, 1100)}})
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSendWithImm, Imm: 4, SGL: []verbs.SGE{a.sge(0, 1000)}, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 0x1234})
		a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
		wc := b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecv)
		if wc.ByteLen != 1040 || wc.SrcQPN != a.qp.QPN() || wc.Flags&verbs.WCGRH == 0 || wc.Imm() != 4 {
			t.Errorf("%+v", wc)
		}
		got := append(bytes.Clone(b.mem[:30]), b.mem[100:]...)
		if !bytes.Equal(got[40:1040], a.mem[:1000]) {
			t.Error("the peer received other bytes than were sent")
		}
		if !bytes.Equal(got[:c.zeros], make([]byte, c.zeros)) || got[c.zeros] != c.version {
			t.Errorf("GRH: % x", got[:40])
		}
		src, dst := a.node.addr.AsSlice(), b.node.addr.AsSlice()
		if n := len(src); !bytes.Equal(got[40-2*n:40-n], src) || !bytes.Equal(got[40-n:40], dst) {
			t.Errorf("addresses in the GRH: % x", got[40-2*n:40])
		}

		// Dropped: another Q_Key, no receive posted, and a message above the MTU. The sender of
		// the last one gets no error.
		for id, wr := range map[uint64]verbs.SendWR{2: {RemoteQKey: 1}, 3: {RemoteQKey: 0x1234}, 4: {RemoteQKey: 0x1234, SGL: []verbs.SGE{a.sge(0, 4097)}}} {
			wr.ID, wr.Opcode, wr.AH, wr.RemoteQPN = id, verbs.OpSend, ah, b.qp.QPN()
			a.send(wr)
			a.want(a.scq, id, verbs.WCSuccess, verbs.WCSend)
		}
		sim.settle()
		e := b.node.engine
		if e.Counter(DropMismatch) != 1 || e.Counter(DropNoReceive) != 1 || e.Counter(RxPackets) != 3 {
			t.Errorf("dropped %d, %d of %d", e.Counter(DropMismatch), e.Counter(DropNoReceive), e.Counter(RxPackets))
		}
		if n, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); n != 0 || err == nil {
			t.Error("a send without an address handle was accepted")
		}
	}
}

// TestUnreliableOpcodes checks that each transport refuses operations that it does not have.
func TestUnreliableOpcodes(t *testing.T) {
	_, uc, _ := pair(t, 1, ucOptions())
	if _, err := uc.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMARead}}); err == nil {
		t.Error("UC accepted a READ")
	}
	_, ud, peer := udPair(t, "10.0.0.1", "10.0.0.2")
	if _, err := ud.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, AH: ud.ah(peer)}}); err == nil {
		t.Error("UD accepted a WRITE")
	}
}
