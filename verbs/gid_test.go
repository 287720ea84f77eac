package verbs

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
)

func gid(ip string) GID { return qpstate.GIDFrom(netip.MustParseAddr(ip)) }

// rxeTable is the GID table of a Soft-RoCE device, with a RoCE v1 slot and another port's slot as
// hardware has them.
var rxeTable = []GIDEntry{
	{GID: gid("fe80::1"), Port: 1, Index: 0, Type: GIDTypeRoCEv2, Netdev: "eth0"},
	{GID: gid("10.99.0.1"), Port: 1, Index: 1, Type: GIDTypeRoCEv2, Netdev: "eth0"},
	{GID: gid("10.99.0.1"), Port: 1, Index: 2, Type: GIDTypeRoCEv1, Netdev: "eth0"},
	{GID: gid("fd99::1"), Port: 1, Index: 3, Type: GIDTypeRoCEv2, Netdev: "eth0"},
	{GID: gid("10.98.0.1"), Port: 1, Index: 4, Type: GIDTypeRoCEv2, Netdev: "eth1"},
	{GID: gid("10.97.0.1"), Port: 2, Index: 0, Type: GIDTypeRoCEv2, Netdev: "eth2"},
}

func TestChooseGID(t *testing.T) {
	addr := netip.MustParseAddr
	for name, c := range map[string]struct {
		selection GIDSelection
		want      int
		why       string
	}{
		"by index":                 {GIDSelection{Index: new(3)}, 3, "asked for"},
		"nothing known":            {GIDSelection{}, 1, "IPv4-mapped"},
		"IPv4 peer":                {GIDSelection{Peer: addr("10.1.1.1")}, 1, "IPv4-mapped"},
		"IPv4-mapped peer":         {GIDSelection{Peer: addr("::ffff:10.1.1.1")}, 1, "IPv4-mapped"},
		"IPv6 peer":                {GIDSelection{Peer: addr("fd99::2")}, 3, "global IPv6"},
		"link-local peer":          {GIDSelection{Peer: addr("fe80::2%eth0")}, 0, "link-local"},
		"the way to the peer":      {GIDSelection{Local: addr("10.98.0.1"), Peer: addr("10.98.0.2")}, 4, "reaches the peer from"},
		"TCP over loopback":        {GIDSelection{Local: addr("127.0.0.1"), Peer: addr("127.0.0.1")}, 1, "IPv4-mapped"},
		"local address, no family": {GIDSelection{Local: addr("fd99::1")}, 3, "reaches the peer from"},
		"another port":             {GIDSelection{Port: 2, Peer: addr("fd99::2")}, 0, "IPv4-mapped"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why, err := ChooseGID(rxeTable, c.selection)
			if err != nil || got.Index != c.want || !strings.Contains(why, c.why) {
				t.Errorf("got %v because %q, %v; want %d because %q", got, why, err, c.want, c.why)
			}
		})
	}
}

func TestChooseGIDSaysWhatThereIs(t *testing.T) {
	var ge *GIDError
	_, _, err := ChooseGID(rxeTable, GIDSelection{Index: new(9)})
	if !errors.As(err, &ge) || !strings.Contains(err.Error(), "GID index 9") || !strings.Contains(err.Error(), "1: ::ffff:10.99.0.1 RoCE v2 on eth0") {
		t.Errorf("an empty slot: %v", err)
	}
	_, _, err = ChooseGID(rxeTable[:1], GIDSelection{})
	if !errors.As(err, &ge) || !strings.Contains(err.Error(), "ip addr add") {
		t.Errorf("link-local alone: %v", err)
	}
	_, _, err = ChooseGID(nil, GIDSelection{Port: 3})
	if !errors.As(err, &ge) || !strings.Contains(err.Error(), "port 3") || !strings.Contains(err.Error(), "no filled slot") {
		t.Errorf("an empty table: %v", err)
	}
	ib := []GIDEntry{{GID: gid("fe80::5"), Port: 1, Type: GIDTypeIB}}
	if e, why, err := ChooseGID(ib, GIDSelection{}); err != nil || e.GID != ib[0].GID || !strings.Contains(why, "InfiniBand") {
		t.Errorf("InfiniBand: %v %q %v", e, why, err)
	}
}

// TestAMachineBeginsWhereTheQueuePairIs also checks that GIDEntry.To leads to a peer.
func TestAMachineBeginsWhereTheQueuePairIs(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	if err := qp.Machine(nil).ToInit(QPAttr{PortNum: 1}); err != nil {
		t.Fatal(err)
	}
	m := qp.Machine(nil)
	if err := m.ToRTR(QPAttr{AH: rxeTable[1].To(gid("10.1.1.1"))}); err != nil || m.State() != QPSRTR || qp.State() != QPSRTR {
		t.Errorf("%v, %v, %v", err, m.State(), qp.State())
	}
	want := AHAttr{IsGlobal: true, PortNum: 1, GRH: GRH{DGID: gid("10.1.1.1"), SGIDIndex: 1, HopLimit: 64}}
	if way := rxeTable[1].To(gid("10.1.1.1")); way != want {
		t.Errorf("the way is %v, want %v", way, want)
	}
	closeRoom(t, qp, cq, pd, d)
}

// TestPKeyIndexPrefersFullMembers: a limited member of a partition can reach only full members.
func TestPKeyIndexPrefersFullMembers(t *testing.T) {
	d, paper := newPaperDevice()
	paper.pkeys = []uint16{0, 0x7fff, 0x0042, 0xffff, 0x8042, 0x0007}
	for pkey, want := range map[uint16]int{0xffff: 3, 0x7fff: 3, 0x8042: 4, 0x0042: 4, 0x8007: 5} {
		if got, err := d.PKeyIndex(1, pkey); got != want || err != nil {
			t.Errorf("%#04x is in slot %d, %v; want %d", pkey, got, err, want)
		}
	}
	for _, pkey := range []uint16{0, 0x8000, 0x8099} {
		if got, err := d.PKeyIndex(1, pkey); !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), "try:") {
			t.Errorf("%#04x is in slot %d, %v", pkey, got, err)
		}
	}
}
