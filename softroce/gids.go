// The GID table, and the host's addresses. They are cached, because a server of datagrams looks them up for each datagram.

package softroce

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/verbs"
)

// gidTable holds the device's addresses and their interfaces. The addresses never change, but
// the names and indexes of their interfaces may.
type gidTable struct {
	mu      sync.Mutex
	watch   *host.Watch
	changed func() bool // the watch's method; tests replace it
	entries []verbs.GIDEntry
	local   map[netip.Addr]bool // the host's addresses
	failed  bool                // to read them
}

func (g *gidTable) init() {
	g.watch = host.NewWatch()
	g.changed = g.watch.Changed
}

func (g *gidTable) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watch.Close()
}

func (d *device) QueryGIDTable() ([]verbs.GIDEntry, error) {
	g := &d.gids
	g.mu.Lock()
	defer g.mu.Unlock()
	d.refresh()
	return slices.Clone(g.entries), nil
}

// onThisHost reports whether the host has an address.
func (d *device) onThisHost(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	g := &d.gids
	g.mu.Lock()
	defer g.mu.Unlock()
	d.refresh()
	return g.local[a.WithZone("")]
}

// refresh reads the tables again if they may have changed. The caller holds their lock.
func (d *device) refresh() {
	g := &d.gids
	if changed := g.changed(); !changed && g.entries != nil && !g.failed {
		return
	}
	g.entries, g.local = d.readGIDs(), make(map[netip.Addr]bool)
	list, err := host.AllAddresses()
	g.failed = err != nil
	for _, a := range list {
		g.local[a] = true
	}
}

func (d *device) readGIDs() []verbs.GIDEntry {
	var table []verbs.GIDEntry
	for i, p := range d.ports {
		if p == nil {
			continue
		}
		entry := verbs.GIDEntry{GID: p.gid(), Port: 1, Index: i, Type: verbs.GIDTypeRoCEv2, Netdev: p.link.Status().Interface}
		if iface, err := net.InterfaceByName(entry.Netdev); err == nil {
			entry.IfIndex = iface.Index
		}
		table = append(table, entry)
	}
	return table
}
