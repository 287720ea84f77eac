//go:build rdma && rxe && linux && cgo

package interop

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	rxeQKey    = 0x11111111
	rxePackets = 40
	rxePayload = 1000
	rxeGRH     = 40
	linkQPN    = 0x123456 // not a queue pair: the test reads the packets
)

// rxe is a UD queue pair of rxe0 with queues of rxePackets requests.
type rxe struct {
	pd   *verbs.PD
	qp   *verbs.QP
	cq   *verbs.CQ
	mr   *verbs.MR
	gids []verbs.GIDEntry
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newRxe(t *testing.T) *rxe {
	if os.Getenv("RAWVERBS_VM") == "" {
		t.Fatal("not in the machine with rxe0: make test-rxe")
	}
	dev := must[*verbs.Device](t)(verbs.Open("rxe0"))
	r := &rxe{pd: must[*verbs.PD](t)(dev.AllocPD())}
	r.cq = must[*verbs.CQ](t)(dev.CreateCQ(verbs.CQInit{Depth: 4 * rxePackets}))
	r.mr = must[*verbs.MR](t)(r.pd.AllocMR(rxePackets*2048, verbs.AccessLocalWrite))
	r.gids = must[[]verbs.GIDEntry](t)(dev.QueryGIDTable())
	r.qp = must[*verbs.QP](t)(r.pd.CreateQP(verbs.QPInit{
		Type: verbs.UD, SendCQ: r.cq, RecvCQ: r.cq, SigAll: true,
		Cap: verbs.QPCap{MaxSendWR: rxePackets, MaxRecvWR: rxePackets, MaxSendSGE: 1, MaxRecvSGE: 1},
	}))
	m := qpstate.NewMachine(verbs.UD, r.qp, nil)
	for _, err := range []error{
		m.ToInit(qpstate.Attr{PortNum: 1, QKey: rxeQKey}), m.ToRTR(qpstate.Attr{}), m.ToRTS(qpstate.Attr{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // in this order
		for _, c := range []func() error{r.qp.Close, r.cq.Close, r.mr.Close, r.pd.Close, dev.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// peerLink opens addr in the namespace "peer", where rdma_rxe does not use the port.
func peerLink(t *testing.T, addr netip.Addr, cfg link.Config) *link.Socket {
	t.Helper()
	type result struct {
		s   *link.Socket
		err error
	}
	opened := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/peer")
		if err != nil {
			opened <- result{err: err}
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			opened <- result{err: os.NewSyscallError("setns", err)}
			return
		}
		s, err := link.Open(addr, cfg)
		opened <- result{s, err}
	}()
	r := <-opened
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.s.Close() })
	t.Log(r.s)
	return r.s
}

// wait waits for n successful completions.
func (r *rxe) wait(t *testing.T, n int) []verbs.WC {
	t.Helper()
	wcs, got := make([]verbs.WC, n), 0
	testkit.Until(t, fmt.Sprintf("%d completions", n), func() bool {
		k, err := r.cq.Poll(wcs[got:])
		if err != nil {
			t.Fatal(err)
		}
		got += k
		return got == n
	}, func() string { return fmt.Sprintf("%d completions", got) })
	for i := range wcs {
		if err := wcs[i].Err(); err != nil {
			t.Fatal(err)
		}
	}
	return wcs
}

// ah returns an address handle for the path from rxe0 to addr.
func (r *rxe) ah(t *testing.T, addr netip.Addr) *verbs.AH {
	t.Helper()
	for _, g := range r.gids {
		own := g.GID.Addr()
		if g.Type == verbs.GIDTypeRoCEv2 && own.Unmap().Is4() == addr.Is4() && !own.IsLinkLocalUnicast() {
			return must[*verbs.AH](t)(r.pd.CreateAH(verbs.AHAttr{
				IsGlobal: true, PortNum: 1,
				GRH: verbs.GRH{DGID: verbs.GID(addr.As16()), SGIDIndex: uint8(g.Index), TrafficClass: 0x20},
			}))
		}
	}
	t.Fatalf("no GID for %v", addr)
	return nil
}

func TestRxe(t *testing.T) {
	for _, c := range []struct{ rxe, peer string }{{"10.99.0.1", "10.99.0.2"}, {"fd99::1", "fd99::2"}} {
		for _, mode := range []link.Mode{link.Plain, link.Batched, link.Segmented} {
			t.Run(fmt.Sprintf("%s/%v", c.peer, mode), func(t *testing.T) {
				r := newRxe(t)
				l := peerLink(t, netip.MustParseAddr(c.peer), link.Config{Limit: mode})
				t.Run("to rxe", func(t *testing.T) { r.testFrom(t, l, netip.MustParseAddr(c.rxe)) })
				t.Run("from rxe", func(t *testing.T) { r.testTo(t, l) })
				t.Run("too long", func(t *testing.T) { testTooLong(t, l, netip.MustParseAddr(c.rxe)) })
			})
		}
	}
}

// testFrom sends bursts from l. rxe0 accepts them only if the ICRCs are correct.
func (r *rxe) testFrom(t *testing.T, l *link.Socket, to netip.Addr) {
	wrs := make([]verbs.RecvWR, rxePackets)
	for i := range wrs {
		wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{r.mr.SGE(i*2048, 2048)}}
	}
	if err := r.qp.PostRecv(wrs); err != nil {
		t.Fatal(err)
	}
	size := packet.Len(packet.UDSendOnly, rxePayload)
	data := make([]byte, rxePackets*size)
	for i := range rxePackets {
		p, err := packet.Build(data[i*size:], packet.UDSendOnly, rxePayload)
		if err != nil {
			t.Fatal(err)
		}
		p.BTH().SetDestQPN(r.qp.QPN())
		p.BTH().SetPSN(packet.PSN(i))
		p.DETH().Set(rxeQKey, linkQPN)
		copy(p.Payload(), bytes.Repeat([]byte{byte(i + 1)}, rxePayload))
	}
	e := new(link.Egress)
	e.Add(link.Destination{Addr: to, TTL: 33, TOS: 0x40}, data, size)
	if err := l.Send(e); err != nil {
		t.Fatal(err)
	}
	for i, wc := range r.wait(t, rxePackets) {
		got := r.mr.Bytes()[i*2048:][:rxeGRH+rxePayload]
		if wc.ID != uint64(i) || wc.ByteLen != rxeGRH+rxePayload || wc.SrcQPN != linkQPN {
			t.Errorf("completion %d: %+v", i, wc)
		}
		if !bytes.Equal(got[rxeGRH:], bytes.Repeat([]byte{byte(i + 1)}, rxePayload)) {
			t.Errorf("packet %d: other bytes", i)
		}
	}
	if c := l.Counters(); l.Status().Send == link.Segmented && c[link.SentBursts] != 1 {
		t.Errorf("%+v", c)
	}
}

// testTo sends from rxe0. l finds the identifications with the ICRCs.
func (r *rxe) testTo(t *testing.T, l *link.Socket) {
	ah := r.ah(t, l.Addr())
	defer ah.Close()
	wrs := make([]verbs.SendWR, rxePackets)
	for i := range wrs {
		copy(r.mr.Bytes()[i*2048:], bytes.Repeat([]byte{byte(i + 101)}, rxePayload))
		wrs[i] = verbs.SendWR{
			ID: uint64(i), Opcode: verbs.OpSend, SGL: []verbs.SGE{r.mr.SGE(i*2048, rxePayload)},
			AH: ah, RemoteQPN: linkQPN, RemoteQKey: rxeQKey,
		}
	}
	if err := r.qp.PostSend(wrs); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(testkit.Limit, func() { l.Close() })
	defer stop.Stop()
	var got []link.Packet
	for in := link.NewIngress(); len(got) < rxePackets; {
		if err := l.Receive(in); err != nil {
			t.Fatalf("%d of %d packets: %v", len(got), rxePackets, err)
		}
		for _, p := range in.Packets {
			p.Data = bytes.Clone(p.Data)
			got = append(got, p)
		}
	}
	r.wait(t, rxePackets)
	for i, p := range got {
		parsed, err := packet.Parse(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.DETH().SrcQPN() != r.qp.QPN() || !bytes.Equal(parsed.Payload(), bytes.Repeat([]byte{byte(i + 101)}, rxePayload)) {
			t.Errorf("packet %d: other bytes", i)
		}
		if p.TTL != 64 || p.TOS != 0x20 {
			t.Errorf("packet %d: TTL %d, TOS %#x", i, p.TTL, p.TOS)
		}
	}
	c := l.Counters()
	t.Logf("identifications %d to %d, source port %d, matches %v, %d joined datagrams",
		got[0].ID, got[len(got)-1].ID, got[0].SrcPort, c[link.Matched:], c[link.ReceivedBursts])
	if slices.Max(c[link.DropTruncated:link.Matched]) > 0 {
		t.Errorf("%+v", c)
	}
	// If nobody else sends, l predicts all identifications but the first.
	if c[link.Matched+link.Counter(packet.MatchExact)] < rxePackets/2 {
		t.Errorf("matches %v", c[link.Matched:])
	}
}

// testTooLong sends a burst of packets that are too long for the interface. The error must not
// turn GSO off.
func testTooLong(t *testing.T, l *link.Socket, to netip.Addr) {
	before := l.Status().Send
	e := new(link.Egress)
	e.Add(link.Destination{Addr: to}, make([]byte, 2*4112), 4112)
	err := l.Send(e)
	var se *link.SendError
	if !errors.As(err, &se) || !errors.Is(err, syscall.EMSGSIZE) || se.Packets != 2 {
		t.Errorf("%v", err)
	}
	if after := l.Status().Send; after != before {
		t.Errorf("%v, then %v", before, after)
	}
	t.Log(err)
}

// TestRxeHasThePort opens a link where rdma_rxe uses port 4791 of every address.
func TestRxeHasThePort(t *testing.T) {
	newRxe(t)
	_, err := link.OpenLoopback(link.Config{})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "rxe0") {
		t.Errorf("%v", err)
	}
	t.Log(err)
}
