// The ACK extended transport header (AETH) and its syndrome.

package packet

import (
	"fmt"

	"github.com/rawverbs/rawverbs/qpstate"
)

// AETH is a view over an ACK extended transport header, 4 bytes: Syndrome 1,
// MSN 3.
type AETH [4]byte

// Syndrome returns the syndrome, which distinguishes ACK, RNR NAK and NAK.
func (h *AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN returns the message sequence number, 24 bits: the number of messages that the responder
// has completed, modulo 2^24.
func (h *AETH) MSN() uint32 { return get24(h[1:4]) }

// Set sets both fields. It uses the low 24 bits of msn.
func (h *AETH) Set(s Syndrome, msn uint32) {
	h[0] = byte(s)
	put24(h[1:4], msn)
}

// Syndrome is the first byte of an AETH: bit 7 reserved, two bits of kind, five
// bits of value.
type Syndrome uint8

// AckKind is the kind of a syndrome.
type AckKind uint8

// The kinds. KindReserved includes all syndromes with bit 7 set.
const (
	KindACK      AckKind = iota // value: a credit count
	KindRNR                     // value: an RNR timer code
	KindReserved                // has no meaning
	KindNAK                     // value: a NAK code
)

// The syndromes with a fixed meaning.
const (
	// SyndromeACK is an ACK with credit count 0x1f, which means that end-to-end flow control is
	// not used.
	SyndromeACK Syndrome = 0x1f

	NAKPSNSequence       Syndrome = 0x60 // the packet with the PSN in the BTH is missing
	NAKInvalidRequest    Syndrome = 0x61
	NAKRemoteAccess      Syndrome = 0x62
	NAKRemoteOperational Syndrome = 0x63
	NAKInvalidRDRequest  Syndrome = 0x64 // reliable datagrams only
)

// RNRSyndrome returns an RNR NAK with timer code t (see qpstate.RNRTimer). It uses the low 5
// bits of t.
func RNRSyndrome(t uint8) Syndrome { return 0x20 | Syndrome(t&0x1f) }

// Kind returns the kind of s.
func (s Syndrome) Kind() AckKind {
	if s&0x80 != 0 {
		return KindReserved
	}
	return AckKind(s >> 5)
}

// Value returns the low five bits. Their meaning depends on the kind: credit count, RNR timer
// code (see qpstate.RNRTimer) or NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & 0x1f) }

var nakNames = map[Syndrome]string{
	NAKPSNSequence: "NAK PSN sequence error", NAKInvalidRequest: "NAK invalid request", NAKRemoteAccess: "NAK remote access error",
	NAKRemoteOperational: "NAK remote operational error", NAKInvalidRDRequest: "NAK invalid RD request",
}

func (s Syndrome) String() string {
	switch s.Kind() {
	case KindACK:
		return "ACK"
	case KindRNR:
		return fmt.Sprintf("RNR NAK %v", qpstate.RNRTimer(s.Value()))
	}
	if name, ok := nakNames[s]; ok {
		return name
	}
	return fmt.Sprintf("syndrome 0x%02x", uint8(s))
}
