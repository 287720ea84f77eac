// The GID table, which is kept because a server of datagrams asks for it with each one.

package softroce

import (
	"net"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// gidTable is the device's addresses, each with its interface. The addresses stay; what the
// system calls their interfaces may change.
type gidTable struct {
	mu      sync.Mutex
	watch   *link.Watch
	changed func() bool // the watch's
	entries []verbs.GIDEntry
}

func (g *gidTable) init() {
	g.watch = link.NewWatch()
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
	if changed := g.changed(); changed || g.entries == nil {
		g.entries = d.readGIDs()
	}
	return slices.Clone(g.entries), nil
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
