// Packet counters.

package link

import (
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Drop is the reason why a received packet was dropped.
type Drop uint8

// The reasons.
const (
	DropTruncated      Drop = iota // the datagram was longer than the buffer; cannot happen with GRO
	DropLength                     // shorter than any packet
	DropICRC                       // damaged, or not RoCE
	DropIdentification             // damaged, unless the sender's identifications have jumped
	DropSource                     // an invalid source address
	DropPort                       // from a loopback address, but not from a device's port
	DropOverflow                   // the receive buffer was full

	// NumDrops is the number of reasons.
	NumDrops = int(DropOverflow) + 1
)

var dropNames = [NumDrops]string{"truncated", "length", "icrc", "identification", "source", "port", "overflow"}

func (d Drop) String() string {
	if int(d) < NumDrops {
		return dropNames[d]
	}
	return fmt.Sprintf("drop %d", uint8(d))
}

// Counters counts the packets of a link since it was opened.
type Counters struct {
	SentPackets, SentBytes         uint64 // bytes from BTH to ICRC
	SendCalls                      uint64 // system calls
	SentBursts                     uint64 // GSO sends of two packets or more
	SendErrors                     uint64 // packets that the system refused
	Fallbacks                      uint64 // GSO sends that the kernel refused
	ReceivedPackets, ReceivedBytes uint64 // packets with a correct ICRC only
	ReceiveCalls                   uint64 // system calls that returned datagrams
	ReceivedBursts                 uint64 // datagrams of two packets or more, joined by GRO
	Dropped                        [NumDrops]uint64
	Matches                        [packet.NumMatches]uint64 // results of all ICRC checks
}

// All iterates over the counters with their names.
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

// counters are the live counters of a link.
type counters struct {
	sentPackets, sentBytes, sendCalls, sentBursts, sendErrors, fallbacks atomic.Uint64
	receivedPackets, receivedBytes, receiveCalls, receivedBursts         atomic.Uint64
	dropped                                                              [NumDrops]atomic.Uint64
	matches                                                              [packet.NumMatches]atomic.Uint64
}

// received adds the packets of one receive call. The counters are then updated once per batch.
func (c *counters) received(t *Counters) {
	add(&c.receiveCalls, 1)
	add(&c.receivedPackets, t.ReceivedPackets)
	add(&c.receivedBytes, t.ReceivedBytes)
	add(&c.receivedBursts, t.ReceivedBursts)
	for i, n := range t.Dropped {
		add(&c.dropped[i], n)
	}
	for i, n := range t.Matches {
		add(&c.matches[i], n)
	}
}

// sent adds the packets of one Send.
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
