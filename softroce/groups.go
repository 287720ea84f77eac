// Multicast groups: the sockets that receive for them, and the queue pairs' memberships.
//
//  1. the first member of a group opens a link for it on each network interface of the
//     device, with a receiver of its own; the last member that leaves closes them
//  2. a datagram to a group leaves by the link of the address handle's GID index, as any
//     other does; the system loops it back to the groups of the interface

package softroce

import (
	"net/netip"
	"sync"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// groups are those that queue pairs of a device are members of.
type groups struct {
	mu     sync.Mutex
	joined map[netip.Addr]*group
	left   map[string]uint64 // the counters of links that were closed
}

type group struct {
	links   []link.Link
	members int
}

// AttachMcast makes the queue pair a member of a group.
func (q *qp) AttachMcast(gid verbs.GID, _ uint16) error {
	addr, g := gid.Addr(), &q.d.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	joined, err := q.qp.Attach(addr)
	if err != nil || !joined {
		return err
	}
	if g.joined[addr] == nil {
		links, err := q.d.join(addr)
		if err != nil {
			_ = q.qp.Detach(addr) // attached above
			return err
		}
		g.joined[addr] = &group{links: links}
	}
	g.joined[addr].members++
	return nil
}

// DetachMcast ends the membership.
func (q *qp) DetachMcast(gid verbs.GID, _ uint16) error {
	addr, g := gid.Addr(), &q.d.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := q.qp.Detach(addr); err != nil {
		return err
	}
	if left := g.joined[addr]; left.members > 1 {
		left.members--
		return nil
	}
	g.leave(addr)
	return nil
}

// leave closes a group's links. The caller holds mu.
func (g *groups) leave(addr netip.Addr) {
	for _, l := range g.joined[addr].links {
		l.Close() // an error here could not be acted on
		for name, n := range l.Counters().All() {
			g.left[name] += n
		}
	}
	delete(g.joined, addr)
}

// join opens a group's links, one per network interface that has addresses of the group's
// family, and receives from them. The caller holds the groups' mu.
func (d *device) join(addr netip.Addr) (links []link.Link, err error) {
	seen := make(map[string]bool)
	for _, p := range d.ports {
		if p == nil || p.link.Addr().Is4() != addr.Is4() || seen[p.link.Status().Interface] {
			continue
		}
		seen[p.link.Status().Interface] = true
		l, err := p.link.Join(addr)
		if err != nil {
			for _, l := range links {
				l.Close()
			}
			return nil, err
		}
		links = append(links, l)
	}
	if len(links) == 0 {
		return nil, errors.WithMessagef(syscall.EINVAL, "%s has no address of the family of %v", d.name, addr)
	}
	for _, l := range links {
		if d.capture.active() {
			l.SetTap(d.capture.tap)
		}
		d.loops.Go(newReceiver(d, &port{link: l, index: groupIndex}).run)
	}
	return links, nil
}

// groupIndex is the index of a port that only receives.
const groupIndex = -1

// setTap sets the tap of all groups' links.
func (g *groups) setTap(tap link.Tap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, joined := range g.joined {
		for _, l := range joined.links {
			l.SetTap(tap)
		}
	}
}

// count adds the counters of all groups' links to all.
func (g *groups) count(all map[string]uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, n := range g.left {
		all["link_"+name] += n
	}
	for _, joined := range g.joined {
		for _, l := range joined.links {
			for name, n := range l.Counters().All() {
				all["link_"+name] += n
			}
		}
	}
}

func (g *groups) init() {
	g.joined, g.left = make(map[netip.Addr]*group), make(map[string]uint64)
}

// close leaves all groups.
func (g *groups) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for addr := range g.joined {
		g.leave(addr)
	}
}
