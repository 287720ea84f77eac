package softroce

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// datagramTo returns the completion of a datagram that was sent to an address, and the
// datagram's GRH.
func datagramTo(to netip.Addr) (*verbs.WC, []byte) {
	grh := make([]byte, verbs.GRHLen)
	ip := grh[20:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	src, dst := to.Next().As4(), to.As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return &verbs.WC{Status: verbs.WCSuccess, Opcode: verbs.WCRecv, Flags: verbs.WCGRH}, grh
}

func openForDatagrams(tb testing.TB) (dev *verbs.Device, wc *verbs.WC, grh []byte) {
	tb.Helper()
	dev, err := verbs.Open("soft0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dev.Close() })
	table, err := dev.QueryGIDTable()
	if err != nil || len(table) != 1 {
		tb.Fatal(table, err)
	}
	wc, grh = datagramTo(table[0].GID.Addr())
	if attr, err := dev.AHAttrFromWC(1, wc, grh); err != nil || !attr.IsGlobal || attr.GRH.SGIDIndex != 1 {
		tb.Fatal(attr, err)
	}
	return dev, wc, grh
}

// BenchmarkAHAttrFromWC times what a server does for each datagram that it answers.
func BenchmarkAHAttrFromWC(b *testing.B) {
	dev, wc, grh := openForDatagrams(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dev.AHAttrFromWC(1, wc, grh); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAHAttrFromWCUsesTheCache counts allocations. Asking the system for its interfaces would
// take 50 of them.
func TestAHAttrFromWCUsesTheCache(t *testing.T) {
	dev, wc, grh := openForDatagrams(t)
	n := testkit.Allocations(t, 100, func() {
		if _, err := dev.AHAttrFromWC(1, wc, grh); err != nil {
			t.Fatal(err)
		}
	})
	if n > 8 {
		t.Errorf("%v allocations per datagram", n)
	}
}

// TestGIDTableCache checks that the GID table is read again only after the system has reported
// a change, and that callers get copies.
func TestGIDTableCache(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	d := dev.Provider().(*device)
	changed := false
	d.gids.changed = func() bool { return changed }
	query := func() verbs.GIDEntry {
		table, err := dev.QueryGIDTable()
		if err != nil || len(table) != 1 {
			t.Fatal(table, err)
		}
		defer clear(table)
		return table[0]
	}
	first := query()
	if first.IfIndex == 0 || first.Netdev == "" {
		t.Errorf("%+v", first)
	}
	d.gids.entries[0].IfIndex = 77
	if got := query().IfIndex; got != 77 {
		t.Errorf("interface %d: the cached table was not used", got)
	}
	changed = true
	if got := query(); got != first {
		t.Errorf("after a change %+v, want %+v", got, first)
	}
}

// TestOnThisHost checks which addresses are the host's, and that they are read again after a change.
func TestOnThisHost(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	d := dev.Provider().(*device)
	own := netip.MustParseAddr("192.0.2.7")
	for a, want := range map[string]bool{"127.0.0.1": true, "127.9.8.7": true, "::1": true, "192.0.2.1": false, "2001:db8::1": false} {
		if got := d.onThisHost(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v, want %v", a, got, want)
		}
	}
	d.gids.changed = func() bool { return false }
	d.gids.local[own] = true
	if !d.onThisHost(own) || !d.onThisHost(netip.MustParseAddr("::1%lo")) {
		t.Error("the host's own address is another host's")
	}
	d.gids.changed = func() bool { return true }
	if d.onThisHost(own) {
		t.Error("an address is known after the host has lost it")
	}
	d.posters = make([]driver, 4)
	if d.shardsOf(own) != 0 || d.shardsOf(netip.MustParseAddr("127.0.0.1")) != 4 {
		t.Error("the packets of other hosts are sorted by queue pairs, or those of this host are not")
	}
}

// TestReplies checks the path on which the device answers datagrams.
func TestReplies(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	d := dev.Provider().(*device)
	p := d.ports[slices.IndexFunc(d.ports, func(p *port) bool { return p != nil })]
	peer := netip.MustParseAddr("192.0.2.1")
	if got := d.reply(p.link.Addr(), peer); got == nil || got.Src != p.link.Addr() || got.Dst != peer || got.Link != p {
		t.Errorf("the path of a reply is %+v", got)
	}
	if got := d.reply(peer, peer); got != nil {
		t.Errorf("the device answers from another's address: %+v", got)
	}
}
