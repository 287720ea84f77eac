// Multicast: the groups of the device's queue pairs, and the links that receive for them.
//
//  1. When the first queue pair attaches to a group, the device opens a link for the group on
//     each of its network interfaces. Each link has its own receiver. When the last queue pair
//     detaches, the device closes these links.
//  2. A datagram to a group leaves by the link of the address handle's GID index, as other
//     datagrams do. The system loops it back to the group's links on that interface.
//
// groups.mu is held for a whole attach or detach.

package softroce

import (
	"net/netip"
	"sync"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// groups are the multicast groups that the device's queue pairs are attached to.
type groups struct {
	mu     sync.Mutex
	joined map[netip.Addr]*group
	left   link.Counters // of closed links
}

type group struct {
	links   []link.Link
	members int
}

// AttachMcast attaches the queue pair to a group.
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

// DetachMcast detaches the queue pair from a group.
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
		l.Close() // nothing can be done about an error here
		g.left.Add(l.Counters())
	}
	delete(g.joined, addr)
}

// join opens a group's links and starts their receivers. There is one link per network
// interface that has addresses of the group's family. The caller holds the groups' mu.
func (d *device) join(addr netip.Addr) (links []link.Link, err error) {
	seen := make(map[string]bool)
	for _, p := range d.ports {
		if p.link.Addr().Is4() != addr.Is4() || seen[p.link.Status().Interface] {
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
		return nil, errors.WithMessagef(syscall.EINVAL, "%s has no address of the same family as the group %v", d.name, addr)
	}
	for _, l := range links {
		if d.capture.active() {
			l.SetTap(d.capture.tap)
		}
		d.loops.Go(newReceiver(d, l, nil).run)
	}
	return links, nil
}

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

// counters returns the sum of the counters of all groups' links.
func (g *groups) counters() (sum link.Counters) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum = g.left
	for _, joined := range g.joined {
		for _, l := range joined.links {
			sum.Add(l.Counters())
		}
	}
	return sum
}

func (g *groups) init() { g.joined = make(map[netip.Addr]*group) }

// close leaves all groups.
func (g *groups) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for addr := range g.joined {
		g.leave(addr)
	}
}
