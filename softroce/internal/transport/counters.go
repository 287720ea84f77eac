// Counters: what happened, and what was dropped without a word on the wire.

package transport

import (
	"fmt"
	"iter"
	"sync/atomic"
)

// Counter names one of an engine's counters.
type Counter uint8

// The counters.
const (
	RxPackets       Counter = iota // datagrams given to Receive
	TxPackets                      // packets given out by Transmit
	Retransmits                    // times a requester went back, for whatever reason
	Timeouts                       // of which for want of any answer
	SequenceNAKs                   // NAKs sent for a missing packet
	RNRNAKs                        // NAKs sent for want of a receive
	Duplicates                     // requests that had been served before
	DropMalformed                  // not a packet
	DropNoQP                       // no such queue pair
	DropState                      // the queue pair was in no state for it
	DropMismatch                   // another transport, partition, Q_Key or address than the queue pair's
	DropNoReceive                  // UC and UD: no receive posted
	DropTooLong                    // UC and UD: messages longer than their receive, datagrams longer than the MTU
	DropStray                      // answers to nothing asked, requests out of order
	DropUnreliable                 // UC: requests that would have been refused by a NAK
	CongestionNotes                // CNPs, which are only counted
	numCounters
)

var counterNames = [numCounters]string{
	"rx_packets", "tx_packets", "retransmits", "timeouts", "sequence_naks", "rnr_naks", "duplicates", "drop_malformed",
	"drop_no_qp", "drop_state", "drop_mismatch", "drop_no_receive", "drop_too_long", "drop_stray", "drop_unreliable", "congestion_notes",
}

func (c Counter) String() string {
	if c < numCounters {
		return counterNames[c]
	}
	return fmt.Sprintf("counter %d", uint8(c))
}

// Counters lists them all, with their names.
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

// Counter tells a counter's value since New.
func (e *Engine) Counter(c Counter) uint64 { return e.counters[c].Load() }
