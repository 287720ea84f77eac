// Packet counters.

package link

import (
	"iter"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Counter is one of the counters of a link.
type Counter uint8

// The counters.
const (
	SentPackets     Counter = iota
	SentBytes               // from BTH to ICRC
	SendCalls               // system calls
	SentBursts              // GSO sends of two packets or more
	SendErrors              // packets that the system refused
	Fallbacks               // GSO sends that the kernel refused
	ReceivedPackets         // packets with a correct ICRC only
	ReceivedBytes           // of these packets
	ReceiveCalls            // system calls that returned datagrams
	ReceivedBursts          // datagrams of two packets or more, joined by GRO

	// Why received packets were dropped.
	DropTruncated      // the datagram was longer than the buffer; cannot happen with GRO
	DropLength         // shorter than any packet
	DropICRC           // damaged, or not RoCE
	DropIdentification // damaged, unless the sender's identifications have jumped
	DropSource         // an invalid source address
	DropPort           // from a loopback address, but not from a device's port
	DropOverflow       // the receive buffer was full

	// Matched counts the results of all ICRC checks: it is the first of packet.NumMatches counters, by packet.Match.
	Matched

	numCounters = int(Matched) + packet.NumMatches
)

var counterNames = [numCounters]string{
	"tx_packets", "tx_bytes", "tx_calls", "tx_bursts", "tx_errors", "tx_fallbacks", "rx_packets", "rx_bytes", "rx_calls", "rx_bursts",
	"drop_truncated", "drop_length", "drop_icrc", "drop_identification", "drop_source", "drop_port", "drop_overflow",
	"icrc_none", "icrc_16_bit", "icrc_near", "icrc_gso", "icrc_exact",
}

// Counters counts the packets of a link since it was opened.
type Counters [numCounters]uint64

// Add adds those of another link.
func (c *Counters) Add(other Counters) {
	for i, n := range other {
		c[i] += n
	}
}

// All iterates over the counters with their names.
func (c Counters) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for i, n := range c {
			if !yield(counterNames[i], n) {
				return
			}
		}
	}
}

// counters are the live counters of a link.
type counters [numCounters]atomic.Uint64

// received adds the packets of one receive call. The counters are then updated once per batch.
func (c *counters) received(t *Counters) {
	t[ReceiveCalls] = 1
	for i := range t[ReceivedPackets:] {
		c.add(ReceivedPackets+Counter(i), t[int(ReceivedPackets)+i])
	}
}

// sent adds the packets of one Send.
func (c *counters) sent(packets, bytes, bursts, calls uint64) {
	c.add(SentPackets, packets)
	c.add(SentBytes, bytes)
	c.add(SentBursts, bursts)
	c.add(SendCalls, calls)
}

func (c *counters) add(which Counter, n uint64) {
	if n != 0 {
		c[which].Add(n)
	}
}

func (c *counters) snapshot() (s Counters) {
	for i := range c {
		s[i] = c[i].Load()
	}
	return s
}
