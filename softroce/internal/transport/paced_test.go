// Tests of the rate of UC and UD: marks, CNPs, and what they do to the senders.

package transport

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// pacedPair returns two ends over a network with routes.
func pacedPair(t *testing.T, kind verbs.QPType) (n *simnet, a, b *end) {
	n = newSimnet(t, 1)
	x, y := n.node("fd00::1"), n.node("fd00::2")
	x.flight, y.flight = 1<<20, 1<<20
	o := defaults()
	o.kind, o.timeout = kind, 0
	a, b = x.end(o), y.end(o)
	a.connect(b)
	b.connect(a)
	return n, a, b
}

// stream sends n packets of 1000 bytes, and returns how long that takes.
func (e *end) stream(peer *end, ah *verbs.AH, n int) time.Duration {
	e.node.net.tb.Helper()
	begin := e.node.net.now
	var wcs [16]verbs.WC
	for posted, done := 0, 0; done < n; {
		for ; posted < n && posted-done < 32; posted++ {
			wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{e.sge(0, 1000)}}
			if ah != nil {
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peer.qp.QPN(), 0x1234
			}
			e.send(wr)
			peer.recv(verbs.RecvWR{SGL: []verbs.SGE{peer.sge(0, 2000)}})
		}
		e.node.net.run(time.Second, func() bool {
			k := e.scq.Poll(wcs[:])
			done += k
			return k > 0
		})
		for peer.rcq.Poll(wcs[:]) > 0 {
		}
	}
	return e.node.net.now - begin
}

// TestMarksSlowUnreliableSenders marks all packets of a sender over UC and one over UD. Each CNP names the
// sender's queue pair, and the receiver sends at most one per 50 µs.
func TestMarksSlowUnreliableSenders(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		n, a, b := pacedPair(t, kind)
		var ah *verbs.AH
		if kind == verbs.UD {
			ah = a.ah(b)
		}
		if took := a.stream(b, ah, 100); took > time.Millisecond {
			t.Errorf("%v: 100 packets without marks take %v", kind, took)
		}
		cnps, start := 0, n.now
		n.tap = func(from, _ *simnode, raw []byte) bool {
			p, err := packet.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if p.Opcode() == packet.CongestionNotification {
				cnps++
				if from != b.node || p.BTH().DestQPN() != a.qp.QPN() || !p.BTH().BECN() {
					t.Errorf("%v: a CNP for %#x, BECN %v", kind, p.BTH().DestQPN(), p.BTH().BECN())
				}
			}
			return true
		}
		n.mark(a)
		took := a.stream(b, ah, 2000)
		if rate := 2000 * 1000 / took.Seconds(); rate > 100e6 {
			t.Errorf("%v: %.3g bytes per second leave though all packets are marked", kind, rate)
		}
		if most := int((n.now-start)/cnpPause) + 1; cnps < 10 || cnps > most {
			t.Errorf("%v: %d CNPs, want 10 to %d", kind, cnps, most)
		}
		e := a.node.engine
		if e.Counter(RateWaits) == 0 || e.Counter(CongestionNotes) == 0 || b.node.engine.Counter(CongestionMarks) == 0 {
			t.Errorf("%v: %d waits, %d CNPs, %d marks", kind, e.Counter(RateWaits), e.Counter(CongestionNotes), b.node.engine.Counter(CongestionMarks))
		}
		n.tos = nil
		n.now += time.Second
		a.stream(b, ah, 32)
		if took := a.stream(b, ah, 100); took > time.Millisecond {
			t.Errorf("%v: 100 packets long after the marks take %v", kind, took)
		}
	}
}

// TestForeignCNPForUD checks that a CNP slows only packets to the address that it came from, and that one from
// a stranger leaves nothing behind.
func TestForeignCNPForUD(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		_, a, b := pacedPair(t, kind)
		var ah *verbs.AH
		if kind == verbs.UD {
			ah = a.ah(b)
		}
		a.stream(b, ah, 10)
		routes := len(a.node.engine.routes.routes)
		stranger := &end{node: &simnode{addr: netip.MustParseAddr("fd00::bad")}}
		a.inject(stranger, packet.CongestionNotification, 0, cnpPayload, nil)
		r := a.node.engine.routes.find(a.node.addr, b.node.addr)
		if r.pacer.limited() || len(a.node.engine.routes.routes) != routes {
			t.Errorf("%v: a stranger's CNP was obeyed", kind)
		}
		a.inject(b, packet.CongestionNotification, 0, cnpPayload, nil)
		if !r.pacer.limited() {
			t.Errorf("%v: the peer's CNP was not obeyed", kind)
		}
	}
}

// TestHandlePerDatagram closes each address handle at once, as some programs do. A CNP that comes then slows the next
// datagrams to that address, and what is remembered is bounded.
func TestHandlePerDatagram(t *testing.T) {
	_, a, b := pacedPair(t, verbs.UD)
	ah := a.ah(b)
	a.stream(b, ah, 10)
	_ = ah.Close()
	a.inject(b, packet.CongestionNotification, 0, cnpPayload, nil)
	ah = a.ah(b)
	a.stream(b, ah, 100)
	_ = ah.Close()
	table := &a.node.engine.routes
	if a.node.engine.Counter(RateWaits) == 0 || len(table.routes) != 1 {
		t.Errorf("after a CNP %d datagrams waited; %d routes", a.node.engine.Counter(RateWaits), len(table.routes))
	}
	for i := range 2 * mostUnused {
		peer := &end{node: &simnode{addr: netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i)})}}
		_ = a.ah(peer).Close()
	}
	if len(table.unused) != mostUnused || len(table.routes) != mostUnused {
		t.Errorf("%d unused routes of %d, want %d", len(table.unused), len(table.routes), mostUnused)
	}
	for range 2 {
		_ = a.ah(b).Close()
	}
	_ = a.ah(b) // it is closed at the test's end
	if len(table.unused) != mostUnused-1 || table.readCredits[a.node.addr].routes != mostUnused {
		t.Errorf("%d unused routes, %d of this address", len(table.unused), table.readCredits[a.node.addr].routes)
	}
}

// TestMarkedGroups checks that datagrams to a group are not marked as capable of ECN, and that nobody answers them with CNPs. A
// datagram with another Q_Key is not answered either.
func TestMarkedGroups(t *testing.T) {
	_, a, b := pacedPair(t, verbs.UD)
	if p := capable(&Path{Dst: netip.MustParseAddr("ff0e::1"), Flight: 1}); p.TrafficClass != 0 {
		t.Errorf("packets to a group have the type of service %#x", p.TrafficClass)
	}
	e := b.node.engine
	marked := Datagram{Src: a.node.addr, Dst: netip.MustParseAddr("ff0e::1"), TOS: ecnCongested}
	b.qp.mu.Lock()
	b.qp.markedDatagram(0, &marked, 5)
	due := b.qp.cnpDue
	b.qp.unlock()
	if due || e.Counter(CongestionMarks) != 1 {
		t.Error("a CNP answers a datagram to a group")
	}
	a.node.net.mark(a)
	ah := a.ah(b)
	a.send(verbs.SendWR{Opcode: verbs.OpSend, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 1})
	a.node.net.settle()
	if e.Counter(CongestionMarks) != 1 || e.Counter(CongestionNotesSent) != 0 {
		t.Error("a CNP answers a datagram with another Q_Key")
	}
}

// TestManyMarkedSenders checks that the receiver's memory is bounded, and that senders without an entry get
// their CNP later.
func TestManyMarkedSenders(t *testing.T) {
	_, _, b := pacedPair(t, verbs.UD)
	d := Datagram{Dst: b.node.addr, TOS: ecnCongested}
	told := map[netip.Addr]bool{}
	var now time.Duration
	b.qp.mu.Lock()
	defer b.qp.mu.Unlock()
	const senders = 100
	for range 2 * senders / len(b.qp.marks) {
		for i := range senders {
			d.Src = netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			if told[d.Src] {
				continue
			}
			b.qp.markedDatagram(now, &d, uint32(i))
		}
		count := 0
		for b.qp.cnpDue {
			o := b.qp.nextCNP()
			var buf [packet.MaxPacket]byte
			if !b.qp.build(buf[:o.size()], &o, now) || int(o.path.Dst.As4()[3]) != int(o.cnpTo) || told[o.path.Dst] {
				t.Fatalf("a CNP for %d to %v", o.cnpTo, o.path.Dst)
			}
			told[o.path.Dst] = true
			count++
		}
		if count > len(b.qp.marks) {
			t.Fatalf("%d CNPs at once", count)
		}
		now += cnpPause
	}
	if len(told) != senders {
		t.Errorf("%d of %d senders got a CNP", len(told), senders)
	}
}

// TestMarkedSendersDoNotStopDatagrams checks that a receiver with CNPs for many senders goes on sending.
func TestMarkedSendersDoNotStopDatagrams(t *testing.T) {
	_, a, b := pacedPair(t, verbs.UD)
	ah := a.ah(b)
	const datagrams = 10
	for range datagrams {
		a.send(verbs.SendWR{Opcode: verbs.OpSend, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 0x1234})
	}
	a.qp.mu.Lock()
	defer a.qp.unlock()
	for i := range len(a.qp.marks) {
		d := Datagram{Src: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Dst: a.node.addr, TOS: ecnCongested}
		a.qp.markedDatagram(0, &d, 1)
	}
	order := ""
	var buf [packet.MaxPacket]byte
	for {
		o, ok := a.qp.next(0, 0, 64, len(buf))
		if !ok {
			break
		}
		if !a.qp.build(buf[:o.size()], &o, 0) {
			t.Fatal("not built:", o)
		}
		order += map[bool]string{true: "C", false: "d"}[o.cnp]
	}
	if want := strings.Repeat("Cd", datagrams) + strings.Repeat("C", len(a.qp.marks)-datagrams); order != want {
		t.Errorf("CNPs and datagrams leave as %s, want %s", order, want)
	}
}

// TestCopiedMark checks that an address vector that was made from a marked datagram sends no marks.
func TestCopiedMark(t *testing.T) {
	for _, c := range []struct{ class, want uint8 }{{0x60, 0x62}, {0x63, 0x62}, {0x61, 0x61}, {0x62, 0x62}} {
		if p := capable(&Path{Flight: 1, TrafficClass: c.class}); p.TrafficClass != c.want {
			t.Errorf("the traffic class %#x becomes %#x, want %#x", c.class, p.TrafficClass, c.want)
		}
		group := capable(&Path{Flight: 1, TrafficClass: c.class, Dst: netip.MustParseAddr("ff0e::1")})
		if free := capable(&Path{TrafficClass: c.class}); group.TrafficClass != 0x60 || free.TrafficClass != 0x60 {
			t.Errorf("the traffic class %#x becomes %#x to a group and %#x without a window, want 0x60", c.class, group.TrafficClass, free.TrafficClass)
		}
	}
}

// TestPacedInTurn checks that queue pairs that wait for the same rate send the same.
func TestPacedInTurn(t *testing.T) {
	n, a, b := pacedPair(t, verbs.UC)
	o := a.opts
	as, bs := []*end{a}, []*end{b}
	for range 7 {
		c, d := a.node.end(o), b.node.end(o)
		c.connect(d)
		d.connect(c)
		as, bs = append(as, c), append(bs, d)
	}
	n.mark(a)
	done := make([]int, len(as))
	var wcs [16]verbs.WC
	for until := n.now + 50*time.Millisecond; n.now < until; n.step(never - 1) {
		for i, e := range as {
			k := e.scq.Poll(wcs[:])
			done[i] += k
			for range 32 - int(e.qp.req.tail-e.qp.req.head) {
				e.write(bs[i], 1000)
			}
		}
	}
	for i, k := range done {
		if k == 0 || k < done[0]*8/10 || k > done[0]*12/10 {
			t.Errorf("queue pair %d has sent %d messages, and the first %d", i, k, done[0])
		}
	}
}

// TestPacedAllocatesNothing checks that senders and receivers allocate nothing while packets are marked.
func TestPacedAllocatesNothing(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		n, a, b := pacedPair(t, kind)
		var ah *verbs.AH
		if kind == verbs.UD {
			ah = a.ah(b)
		}
		n.mark(a)
		a.stream(b, ah, 1000)
		d := Datagram{Src: a.node.addr, Dst: b.node.addr, TOS: ecnCongested}
		var buf [packet.MaxPacket]byte
		now := n.now
		r := a.node.engine.routes.find(a.node.addr, b.node.addr)
		if allocs := testing.AllocsPerRun(100, func() {
			now += cnpPause
			b.qp.mu.Lock()
			if kind == verbs.UD {
				b.qp.markedDatagram(now, &d, 7)
			} else {
				b.qp.marked(now, false)
			}
			o := b.qp.nextCNP()
			b.qp.build(buf[:o.size()], &o, now)
			b.qp.mu.Unlock()
			a.qp.mu.Lock()
			a.qp.notified(now, &Datagram{Src: b.node.addr, Dst: a.node.addr})
			a.qp.waitsFor(now, r)
			a.qp.paced.built(1000)
			a.qp.mu.Unlock()
		}); allocs != 0 {
			t.Errorf("%v: %v allocations per CNP", kind, allocs)
		}
	}
}
