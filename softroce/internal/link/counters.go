// This file counts what happens to packets.

package link

import (
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Drop is why something that came was thrown away.
type Drop uint8

// The reasons.
const (
	DropTruncated      Drop = iota // a datagram that there was no room for; with GRO there is always room
	DropLength                     // shorter than any packet
	DropICRC                       // damaged, or no RoCE
	DropIdentification             // damaged, unless the sender's count has jumped
	DropSource                     // a source address that cannot be
	DropOverflow                   // no room: came faster than it was received

	// NumDrops is how many there are.
	NumDrops = int(DropOverflow) + 1
)

var dropNames = [NumDrops]string{"truncated", "length", "icrc", "identification", "source", "overflow"}

func (d Drop) String() string {
	if int(d) < NumDrops {
		return dropNames[d]
	}
	return fmt.Sprintf("drop %d", uint8(d))
}

// Counters is what happened since a link was opened.
type Counters struct {
	SentPackets, SentBytes         uint64 // bytes BTH to ICRC
	SendCalls                      uint64 // of the system
	SentBursts                     uint64 // GSO sends of two packets or more
	SendErrors                     uint64 // packets that the system refused
	Fallbacks                      uint64 // times that the kernel refused GSO
	ReceivedPackets, ReceivedBytes uint64 // sound ones only
	ReceiveCalls                   uint64 // of the system, those that brought something
	ReceivedBursts                 uint64 // datagrams of two packets or more, joined by GRO
	Dropped                        [NumDrops]uint64
	Matches                        [packet.NumMatches]uint64 // of all ICRCs checked
}

// All lists them by name.
func (c Counters) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, n := range []struct {
			name  string
			value uint64
		}{
			{"tx_packets", c.SentPackets}, {"tx_bytes", c.SentBytes}, {"tx_calls", c.SendCalls}, {"tx_bursts", c.SentBursts},
			{"tx_errors", c.SendErrors}, {"tx_fallbacks", c.Fallbacks},
			{"rx_packets", c.ReceivedPackets}, {"rx_bytes", c.ReceivedBytes}, {"rx_calls", c.ReceiveCalls}, {"rx_bursts", c.ReceivedBursts},
		} {
			if !yield(n.name, n.value) {
				return
			}
		}
		for d, n := range c.Dropped {
			if !yield("drop_"+Drop(d).String(), n) {
				return
			}
		}
		for m, n := range c.Matches {
			if !yield("icrc_"+strings.ReplaceAll(strings.ToLower(packet.Match(m).String()), " ", "_"), n) {
				return
			}
		}
	}
}

// counters is what a link counts in.
type counters struct {
	sentPackets, sentBytes, sendCalls, sentBursts, sendErrors, fallbacks atomic.Uint64
	receivedPackets, receivedBytes, receiveCalls, receivedBursts         atomic.Uint64
	dropped                                                              [NumDrops]atomic.Uint64
	matches                                                              [packet.NumMatches]atomic.Uint64
}

// tally is what one receive call brought: counted apart, so that counters are
// touched once a batch.
type tally struct {
	packets, bytes, bursts uint64
	drops                  [NumDrops]uint64
	matches                [packet.NumMatches]uint64
}

// received adds what one receive call brought.
func (c *counters) received(t *tally) {
	add(&c.receiveCalls, 1)
	add(&c.receivedPackets, t.packets)
	add(&c.receivedBytes, t.bytes)
	add(&c.receivedBursts, t.bursts)
	for i, n := range t.drops {
		add(&c.dropped[i], n)
	}
	for i, n := range t.matches {
		add(&c.matches[i], n)
	}
}

// sent adds what one Send sent.
func (c *counters) sent(packets, bytes, bursts, calls uint64) {
	add(&c.sentPackets, packets)
	add(&c.sentBytes, bytes)
	add(&c.sentBursts, bursts)
	add(&c.sendCalls, calls)
}

func add(c *atomic.Uint64, n uint64) {
	if n != 0 {
		c.Add(n)
	}
}

func (c *counters) snapshot() Counters {
	s := Counters{
		SentPackets: c.sentPackets.Load(), SentBytes: c.sentBytes.Load(), SendCalls: c.sendCalls.Load(),
		SentBursts: c.sentBursts.Load(), SendErrors: c.sendErrors.Load(), Fallbacks: c.fallbacks.Load(),
		ReceivedPackets: c.receivedPackets.Load(), ReceivedBytes: c.receivedBytes.Load(),
		ReceiveCalls: c.receiveCalls.Load(), ReceivedBursts: c.receivedBursts.Load(),
	}
	for i := range s.Dropped {
		s.Dropped[i] = c.dropped[i].Load()
	}
	for i := range s.Matches {
		s.Matches[i] = c.matches[i].Load()
	}
	return s
}
