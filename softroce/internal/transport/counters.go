// Counters of events, and of packets that were dropped silently.

package transport

import (
	"fmt"
	"iter"
	"sync/atomic"
)

// Counter is the number of one of an engine's counters.
type Counter uint8

// The counters.
const (
	RxPackets           Counter = iota // datagrams passed to Receive
	TxPackets                          // packets returned by Transmit
	Retransmits                        // how often a requester went back, for any reason
	Timeouts                           // ACK timeouts: no answer came in time
	SequenceNAKs                       // NAKs sent for a missing packet
	RNRNAKs                            // NAKs sent because no receive was posted
	Duplicates                         // requests that had already been served
	DropMalformed                      // not a valid packet
	DropNoQP                           // no queue pair has this number
	DropState                          // the queue pair's state does not accept the packet
	DropMismatch                       // the transport, partition, Q_Key or address differs from the queue pair's
	DropNoReceive                      // UC and UD: no receive posted
	DropTooLong                        // UC and UD: messages longer than their receive, datagrams longer than the MTU
	DropStray                          // responses without a request, requests out of order
	DropUnreliable                     // UC: bad requests, which RC would refuse with a NAK
	Kept                               // requests that came ahead of a missing one, and were kept
	Probes                             // duplicates sent to learn what the responder has received
	CongestionNotes                    // CNPs received
	CongestionNotesSent                // CNPs sent
	CongestionMarks                    // packets that a switch marked
	StarvedTimeouts                    // ACK timeouts that did not count for RETRY_CNT, because packets lay unread
	RoomWaits                          // UC and UD: how often a sender waited because its receiver was full
	RateWaits                          // UC and UD: how often a sender waited because of CNPs
	numCounters
)

var counterNames = [numCounters]string{
	"rx_packets", "tx_packets", "retransmits", "timeouts", "sequence_naks", "rnr_naks", "duplicates", "drop_malformed",
	"drop_no_qp", "drop_state", "drop_mismatch", "drop_no_receive", "drop_too_long", "drop_stray", "drop_unreliable", "kept", "probes", "congestion_notes", "congestion_notes_sent", "congestion_marks", "starved_timeouts", "room_waits", "rate_waits",
}

func (c Counter) String() string {
	if c < numCounters {
		return counterNames[c]
	}
	return fmt.Sprintf("counter %d", uint8(c))
}

// Counters iterates over all counters and their names.
func Counters() iter.Seq2[Counter, string] {
	return func(yield func(Counter, string) bool) {
		for c, name := range counterNames {
			if !yield(Counter(c), name) {
				return
			}
		}
	}
}

type counters [numCounters]atomic.Uint64

func (cs *counters) add(c Counter, n uint64) { cs[c].Add(n) }

// Counter returns the value of a counter since New.
func (e *Engine) Counter(c Counter) uint64 { return e.counters[c].Load() }
