// Shards: several receivers for one address, on hosts with enough processors. Each has a socket of its own (package link).
//
//  1. At first all packets arrive at the first receiver. While traffic is light, one goroutine receives best: the one
//     that waits for the completions, which nobody then wakes (lead.go).
//  2. When the first receiver hardly ever waits for packets, and they are for queue pairs of several shards, it holds up
//     the others. The packets are then spread over all receivers.
//  3. When a goroutine wants to lead, the packets are gathered again.
//
// A queue pair's packets must stay in order. So for a switch all receivers stop, the filter of the sockets is set, and what had
// arrived before is received. Only then do they go on.

package softroce

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

const (
	// loadFor is how long the load of a receiver is measured.
	loadFor = 10 * time.Millisecond
	// mostWaited is the part of that time which a receiver waits if it holds up others: less than one in mostWaited.
	mostWaited = 10
	// settled is how long packets are spread, or gathered, before that changes again.
	settled = 100 * time.Millisecond
	// onTheirWay is how long packets may be on their way in the kernel, to a socket that was chosen before a switch.
	onTheirWay = time.Millisecond
)

// shardsPerPort returns the number of receivers of each address. Sending, and the work of the programs, need processors too.
// The number must be the same in all processes of a host. Tests replace it.
var shardsPerPort = func() int {
	switch n := host.Processors(); {
	case n >= 16:
		return 4
	case n >= 4:
		return 2
	}
	return 1
}

// shards are the receivers of one address.
type shards struct {
	d         *device
	links     *link.Shards
	receivers []*receiver

	spread   atomic.Bool // all receive; otherwise only the first one
	mu       sync.Mutex  // held during a switch
	switched time.Time   // when the last switch ended
}

// load is how busy a receiver was since began, if one goroutine has received since then.
type load struct {
	began  time.Time
	waited time.Duration
	shards uint64 // a bit for each shard that packets were for
}

// gets reports whether packets may arrive at a receiver.
func (s *shards) gets(r *receiver) bool { return s == nil || r == s.receivers[0] || s.spread.Load() }

// look spreads the packets if the first receiver, which has just received, holds up others. The caller is its goroutine.
func (s *shards) look(r *receiver) {
	if r != s.receivers[0] || s.spread.Load() {
		return
	}
	l := &r.load
	qpn := (*packet.BTH)(r.in.Packets[0].Data).DestQPN()
	l.shards |= 1 << (qpn % uint32(len(s.receivers)))
	now := time.Now()
	took := now.Sub(l.began)
	if took < loadFor {
		return
	}
	if took < 2*loadFor && l.waited < took/mostWaited && bits.OnesCount64(l.shards) > 1 {
		s.d.loops.Go(func() { s.set(true) })
	}
	*l = load{began: now}
}

// set spreads or gathers the packets, unless they were gathered or spread a moment ago.
func (s *shards) set(spread bool) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.spread.Load() == spread || time.Since(s.switched) < settled {
		return
	}
	for _, r := range s.receivers {
		r.lock()
	}
	before, after := s.receivers[:1], s.receivers[1:]
	if !spread {
		before, after = after, before
	}
	if s.links.Spread(spread) == nil { // otherwise the device is closed
		s.spread.Store(spread)
		drain(before)
		time.Sleep(onTheirWay)
		drain(before)
		s.d.lastWoke.Store(after[0])
	}
	s.switched = time.Now()
	for _, r := range s.receivers {
		r.mu.Unlock()
		r.takeOver()
	}
}

// drain receives what has arrived at receivers, which the caller has locked.
func drain(receivers []*receiver) {
	for _, r := range receivers {
		r.settle()
		for r.try(r.in) == nil {
			r.process()
			r.answer()
		}
	}
}
