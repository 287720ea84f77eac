// The GID table. It is cached, because a server of datagrams looks it up for each datagram.

package softroce

import (
	"net"
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
