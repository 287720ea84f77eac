// Shards: several receivers for one address, on hosts with enough processors. Each has a socket of its own (package link).
//
//  1. At first all packets arrive at the first receiver. Unless much arrives, one goroutine receives best: the one
//     that waits for the completions, which nobody then wakes (lead.go).
//  2. When the first receiver hardly ever waits for packets, and they are for queue pairs of several shards, packets wait while
//     others are processed. They are then spread over the other receivers, one for each shard.
//  3. When a goroutine wants to lead, and not much is moved, the packets are gathered again.
//
// A queue pair's packets must stay in order. So for a switch all receivers stop, the filter of the sockets is set, and what had
// arrived before is received. Only then do they go on. Packets that are on their way through the kernel at that moment, for
// longer than onTheirWay, may be overtaken.

package softroce

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"
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
	// waitsSeldom: a receiver that waits for packets for less than 1/waitsSeldom of that time holds up others.
	waitsSeldom = 10
	// settled is how long packets are spread, or gathered, before that changes again.
	settled = 100 * time.Millisecond
	// onTheirWay is how long packets may be on their way in the kernel, to a socket that was chosen before a switch.
	onTheirWay = time.Millisecond
)

// shardsPerPort returns the number of shards of each address. Sending, and the work of the programs, need processors too.
// The number must be the same in all processes of a host. Tests replace it.
var shardsPerPort = func() int {
	switch n := host.Processors(); {
	case runtime.GOOS != "linux":
		return 1
	case n >= 16:
		return 4
	case n >= 4:
		return 2
	}
	return 1
}

// shards are the receivers of one address.
type shards struct {
	d      *device
	links  *link.Shards
	first  *receiver   // receives the packets if they are gathered
	others []*receiver // receive them if they are spread

	spread   atomic.Bool
	mu       sync.Mutex // held during a switch
	switched time.Time  // when the last switch ended
}

// load is how busy a receiver was since began. It is valid only if no other goroutine has received meanwhile.
type load struct {
	began     time.Time
	waited    time.Duration
	shards    uint64 // a bit for each shard that packets were for, by queue pair number
	addresses uint64 // likewise, by the sender's address
}

// now returns the receivers at which packets arrive, and the rest. A packet may still arrive at one of the rest.
func (s *shards) now() (receive, rest []*receiver) {
	first := []*receiver{s.first}
	if s.spread.Load() {
		return s.others, first
	}
	return first, s.others
}

// look spreads the packets if the first receiver, which has just received, holds up others. The caller is its goroutine.
func (s *shards) look(r *receiver) {
	if r != s.first || s.spread.Load() || len(r.in.Packets) == 0 {
		return
	}
	if s.measure(&r.load, &r.in.Packets[0], time.Now()) {
		s.d.loops.Go(func() { s.set(true) })
	}
}

// measure adds a packet to the load. At the end of a measurement it begins the next one, and reports whether the
// packets should be spread.
func (s *shards) measure(l *load, p *link.Packet, now time.Time) (spread bool) {
	n, src := uint32(len(s.others)), p.Src.As16()
	l.shards |= 1 << ((*packet.BTH)(p.Data).DestQPN() % n)
	l.addresses |= 1 << (binary.BigEndian.Uint32(src[12:]) % n)
	took := now.Sub(l.began)
	if took < loadFor {
		return false
	}
	if took < 2*loadFor && l.waited < took/waitsSeldom {
		several := l.addresses
		if s.d.onThisHost(p.Src) {
			several = l.shards
		}
		spread = bits.OnesCount64(several) > 1
	}
	*l = load{began: now}
	return spread
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
	before, after := s.now()
	all := slices.Concat(before, after)
	for _, r := range all {
		r.lock()
	}
	if s.links.Spread(spread) == nil { // it fails if the device is closed
		drain(before)
		time.Sleep(onTheirWay)
		drain(before)
		for _, r := range after {
			r.in.Forget()
		}
		s.spread.Store(spread)
		s.d.woke.Store(false)
		s.d.lastWoke.Store(after[0])
	}
	s.switched = time.Now()
	for _, r := range all {
		r.unlock()
		r.Call()
	}
}

// drain receives what has arrived at receivers, which the caller has locked, and to which nothing comes any more.
func drain(receivers []*receiver) {
	for _, r := range receivers {
		r.settle()
		for r.try(r.in) == nil {
			r.process()
			r.answer()
		}
	}
}
