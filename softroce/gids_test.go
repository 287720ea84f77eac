package softroce

import (
	"encoding/binary"
	stderrors "errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/host"
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
	d := verbs.ProviderOf(dev).(*device)
	d.setChanged(false)
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
	d.gids.mu.Lock()
	d.gids.entries[0].IfIndex = 77
	d.gids.mu.Unlock()
	if got := query().IfIndex; got != 77 {
		t.Errorf("interface %d: the cached table was not used", got)
	}
	d.setChanged(true)
	if got := query(); got != first {
		t.Errorf("after a change %+v, want %+v", got, first)
	}
}

// setChanged replaces what the watch says. The notifications are read still, because the device's goroutine waits for them.
func (d *device) setChanged(changed bool) {
	d.gids.mu.Lock()
	defer d.gids.mu.Unlock()
	d.gids.changed = func() bool {
		d.gids.watch.Changed()
		return changed
	}
}

// TestUnreadableHost: errors while the host's tables are read say nothing of the port. The tables stay as they are, without
// an event, and are read again. An interface that does not exist is no such error.
func TestUnreadableHost(t *testing.T) {
	works := hostReader{host.AllAddresses, host.Interface, host.InterfaceOf}
	noAddresses, noInterface, gone := works, works, works
	noAddresses.allAddresses = func() ([]netip.Addr, error) { return nil, syscall.EMFILE }
	noInterface.named = func(string) (*net.Interface, []netip.Addr, error) { return nil, nil, syscall.EMFILE }
	gone.named = func(string) (*net.Interface, []netip.Addr, error) { return host.Interface("nosuch0") }
	for name, c := range map[string]struct {
		reader hostReader
		fails  bool
		state  portState
		events int
	}{
		"addresses":  {noAddresses, true, portUp, 0},
		"interface":  {noInterface, true, portUp, 0},
		"no failure": {works, false, portUp, 0},
		"gone":       {gone, false, portDisabled, 2},
	} {
		dev, _, _ := openForDatagrams(t)
		d := verbs.ProviderOf(dev).(*device)
		before := len(d.events.Waiting())
		d.setChanged(true)
		d.gids.mu.Lock()
		d.gids.host = c.reader
		d.gids.mu.Unlock()
		again := d.reread()
		d.setChanged(false) // the change is not reported twice
		if state, err := d.portState(); again != c.fails || state != c.state || err != nil {
			t.Errorf("%s: read again %v, the port is %d, %v; want %v, %d", name, again, state, err, c.fails, c.state)
		}
		if got := d.events.Waiting()[before:]; len(got) != c.events {
			t.Errorf("%s: the events are %v, want %d", name, got, c.events)
		}
		d.gids.mu.Lock()
		d.gids.host = works
		d.gids.mu.Unlock()
		if again = d.reread(); again {
			t.Errorf("%s: the tables must be read again without an error", name)
		}
	}
}

// TestHostUnreadableAtFirst: a device whose first read fails has no state, rather than a wrong one. Its goroutine reads again, without
// a notification and without an event.
func TestHostUnreadableAtFirst(t *testing.T) {
	before := rereadPause
	rereadPause = time.Millisecond
	t.Cleanup(func() { rereadPause = before })
	dev, _, _ := openForDatagrams(t)
	d := &device{ports: verbs.ProviderOf(dev).(*device).ports}
	d.events.Init(isFatal)
	d.gids.init()
	defer d.gids.close()
	d.setChanged(false)
	fails := true // guarded by the tables' lock
	d.gids.host.named = func(name string) (*net.Interface, []netip.Addr, error) {
		if fails {
			return nil, nil, syscall.EMFILE
		}
		return host.Interface(name)
	}
	d.watchHost()
	if state, err := d.portState(); !stderrors.Is(err, syscall.EMFILE) {
		t.Errorf("the port is %d, %v; want an error", state, err)
	}
	if table, err := d.QueryGIDTable(); !stderrors.Is(err, syscall.EMFILE) {
		t.Errorf("the GID table is %v, %v; want an error", table, err)
	}
	known := func() bool {
		d.gids.mu.Lock()
		defer d.gids.mu.Unlock()
		fails = false
		return d.gids.known
	}
	testkit.Until(t, "read", known)
	if state, err := d.portState(); state != portUp || err != nil || len(d.events.Waiting()) > 0 {
		t.Errorf("the port is %d, %v, with events %v", state, err, d.events.Waiting())
	}
}

// TestGIDChangeOfAnEntry: an entry that stays at its place but gets another interface is a change.
func TestGIDChangeOfAnEntry(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	d := verbs.ProviderOf(dev).(*device)
	d.setChanged(true)
	d.gids.mu.Lock()
	d.gids.entries[0].IfIndex = 77
	d.gids.mu.Unlock()
	before := len(d.events.Waiting())
	d.reread()
	if got := d.events.Waiting()[before:]; len(got) != 1 || got[0].Type != verbs.EventGIDChange {
		t.Errorf("the events are %v, want one GID_CHANGE", got)
	}
}

// TestOnThisHost checks which addresses are the host's, and that they are read again after a change.
func TestOnThisHost(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	d := verbs.ProviderOf(dev).(*device)
	own := netip.MustParseAddr("192.0.2.7")
	for a, want := range map[string]bool{"127.0.0.1": true, "127.9.8.7": true, "::1": true, "192.0.2.1": false, "2001:db8::1": false} {
		if got := d.onThisHost(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v, want %v", a, got, want)
		}
	}
	d.setChanged(false)
	d.gids.mu.Lock()
	d.gids.local[own] = true
	d.gids.mu.Unlock()
	if !d.onThisHost(own) || !d.onThisHost(netip.MustParseAddr("::1%lo")) {
		t.Error("the host's own address is another host's")
	}
	d.setChanged(true)
	if d.onThisHost(own) {
		t.Error("an address is known after the host has lost it")
	}
	d.postDrivers = make([]driver, 4)
	if d.shardsOf(own) != 0 || d.shardsOf(netip.MustParseAddr("127.0.0.1")) != 4 {
		t.Error("the packets of other hosts are sorted by queue pairs, or those of this host are not")
	}
}

// TestReplies checks the path on which the device answers datagrams.
func TestReplies(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	d := verbs.ProviderOf(dev).(*device)
	p := d.ports[0]
	peer := netip.MustParseAddr("192.0.2.1")
	if got := d.reply(p.link.Addr(), peer); got == nil || got.Src != p.link.Addr() || got.Dst != peer || got.Link != p {
		t.Errorf("the path of a reply is %+v", got)
	}
	if got := d.reply(peer, peer); got != nil {
		t.Errorf("the device answers from another's address: %+v", got)
	}
}

// TestPortActiveIsAnnounced: programs learn from the device's capabilities that PORT_ACTIVE is reported.
func TestPortActiveIsAnnounced(t *testing.T) {
	dev, _, _ := openForDatagrams(t)
	if attr, err := dev.Query(); err != nil || attr.CapFlags&verbs.CapPortActiveEvent == 0 {
		t.Errorf("the capabilities are %v, %v", attr.CapFlags, err)
	}
}
