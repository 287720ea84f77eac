// Multicast groups: the UD queue pairs that get a copy of a datagram to a group.

package transport

import (
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// groupTable holds the members of each group. A list of members never changes, so a receiver
// can use it without the lock.
type groupTable struct {
	mu      sync.RWMutex
	members map[netip.Addr][]*QP
}

func (t *groupTable) of(group netip.Addr) []*QP {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.members[group]
}

// Attach makes the queue pair a member of a group. joined is false if it already was a member.
// Attach returns EINVAL if the queue pair is not UD or the address is not multicast.
func (qp *QP) Attach(group netip.Addr) (joined bool, err error) {
	if qp.kind != verbs.UD || !group.IsMulticast() {
		return false, syscall.EINVAL
	}
	t := &qp.engine.groups
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.members[group]
	if slices.Contains(old, qp) {
		return false, nil
	}
	t.members[group] = append(slices.Clip(slices.Clone(old)), qp)
	qp.groups.Add(1)
	return true, nil
}

// Detach ends a membership. It returns EINVAL if the queue pair is not a member.
func (qp *QP) Detach(group netip.Addr) error {
	t := &qp.engine.groups
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.members[group], qp)
	if at < 0 {
		return syscall.EINVAL
	}
	rest := slices.Delete(slices.Clone(t.members[group]), at, at+1)
	if len(rest) == 0 {
		delete(t.members, group)
	} else {
		t.members[group] = rest
	}
	qp.groups.Add(-1)
	return nil
}

// receiveGroup passes a datagram to each member of its group.
func (e *Engine) receiveGroup(now time.Duration, p packet.Packet, d *Datagram) {
	members := e.groups.of(d.Dst)
	if len(members) == 0 {
		e.counters.add(DropNoQP, 1)
		return
	}
	for _, qp := range members {
		qp.mu.Lock()
		if !qp.closed {
			qp.receive(now, p, d)
		}
		qp.unlock()
	}
}
