// Queue pair types, states and attribute mask bits, with the numbers of libibverbs.

package qpstate

import (
	"fmt"
	"math/bits"
	"strings"
)

// Type is a queue pair's transport type (enum ibv_qp_type). The zero value is not a
// valid type.
type Type uint8

// The transport types with a row in the transition table.
const (
	RC Type = 2 // reliable connection: acknowledged, in order, one peer
	UC Type = 3 // unreliable connection: in order, one peer, losses are not reported
	UD Type = 4 // unreliable datagram: any peer, one packet per message
)

// Types returns the types of the transition table, in its order.
func Types() []Type { return []Type{RC, UC, UD} }

// Name returns the type without its C prefix: "RC".
func (t Type) Name() string { return strings.TrimPrefix(t.String(), "IBV_QPT_") }

// String returns the C name: "IBV_QPT_RC".
func (t Type) String() string {
	switch t {
	case RC:
		return "IBV_QPT_RC"
	case UC:
		return "IBV_QPT_UC"
	case UD:
		return "IBV_QPT_UD"
	}
	return fmt.Sprintf("IBV_QPT_%d", uint8(t))
}

// State is a queue pair's state (enum ibv_qp_state). The zero value is [Reset].
type State uint8

// The states, in libibverbs' numbering.
const (
	Reset   State = iota // just created: nothing may be posted
	Init                 // bound to a port: receives may be posted, nothing arrives yet
	RTR                  // ready to receive: the peer's messages are accepted
	RTS                  // ready to send: everything works
	SQD                  // send queue drain: sends wait, attributes may change
	SQE                  // send queue error (UC, UD): receives still work
	Error                // every work request completes with WR_FLUSH_ERR
	Unknown              // ibv_query_qp could not determine the state
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN"}

// States returns the seven states of a queue pair.
func States() []State { return []State{Reset, Init, RTR, RTS, SQD, SQE, Error} }

// Name returns the state without its C prefix: "RTS".
func (s State) Name() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprint(uint8(s))
}

// String returns the C name: "IBV_QPS_RTS".
func (s State) String() string { return "IBV_QPS_" + s.Name() }

// Mask is the set of fields of an [Attr] that count (enum ibv_qp_attr_mask). The zero
// value is the empty set.
type Mask uint32

// The mask's bits, in libibverbs' numbering. Each comment names the field of [Attr] that
// the bit selects. [Mask.About] describes the attribute.
const (
	MaskState            Mask = 1 << 0  // State: the move itself
	MaskCurState         Mask = 1 << 1  // CurState: the state that the caller expects
	MaskEnSQDAsyncNotify Mask = 1 << 2  // EnSQDAsyncNotify: an event when the send queue has drained
	MaskAccessFlags      Mask = 1 << 3  // Access: what the peer may do
	MaskPKeyIndex        Mask = 1 << 4  // PKeyIndex: the partition
	MaskPort             Mask = 1 << 5  // PortNum: the port
	MaskQKey             Mask = 1 << 6  // QKey: the key that datagrams must carry
	MaskAV               Mask = 1 << 7  // AH: the path to the peer
	MaskPathMTU          Mask = 1 << 8  // PathMTU: the largest payload of a packet
	MaskTimeout          Mask = 1 << 9  // Timeout: the wait for an ACK
	MaskRetryCnt         Mask = 1 << 10 // RetryCnt: resends without an ACK
	MaskRNRRetry         Mask = 1 << 11 // RNRRetry: resends to a peer with no receive posted
	MaskRQPSN            Mask = 1 << 12 // RQPSN: the first packet number expected
	MaskMaxRdAtomic      Mask = 1 << 13 // MaxRdAtomic: READs and atomics this side may have in flight
	MaskAltPath          Mask = 1 << 14 // AltAH, AltPKeyIndex, AltPortNum, AltTimeout: a second path
	MaskMinRNRTimer      Mask = 1 << 15 // MinRNRTimer: the wait of a sender that found no receive
	MaskSQPSN            Mask = 1 << 16 // SQPSN: the first packet number sent
	MaskMaxDestRdAtomic  Mask = 1 << 17 // MaxDestRdAtomic: READs and atomics the peer may have in flight here
	MaskPathMigState     Mask = 1 << 18 // PathMigState: path migration
	MaskCap              Mask = 1 << 19 // Cap: queue sizes; no transition takes it
	MaskDestQPN          Mask = 1 << 20 // DestQPN: the peer's queue pair
	MaskRateLimit        Mask = 1 << 25 // RateLimit: packet pacing
)

// bitNames lists the bits: the C name after IBV_QP_, and the purpose of the attribute.
var bitNames = []struct {
	bit   Mask
	name  string
	about string
}{
	{MaskState, "STATE", "the state to move to"},
	{MaskCurState, "CUR_STATE", "the state the caller believes the QP is in"},
	{MaskEnSQDAsyncNotify, "EN_SQD_ASYNC_NOTIFY", "ask for an event when the send queue has drained"},
	{MaskAccessFlags, "ACCESS_FLAGS", "what the peer may do: remote read, write, atomic"},
	{MaskPKeyIndex, "PKEY_INDEX", "the partition, by its place in the port's table"},
	{MaskPort, "PORT", "the device's port the QP is bound to"},
	{MaskQKey, "QKEY", "the key a datagram must carry to be accepted"},
	{MaskAV, "AV", "address vector: the path to the peer (on RoCE: its GID)"},
	{MaskPathMTU, "PATH_MTU", "the largest payload of a packet, the same at both ends"},
	{MaskTimeout, "TIMEOUT", "how long to wait for an ACK: 4.096 µs · 2^timeout; 0 means forever"},
	{MaskRetryCnt, "RETRY_CNT", "how often to resend without an ACK before giving up"},
	{MaskRNRRetry, "RNR_RETRY", "how often to resend to a peer with no receive posted; 7 means forever"},
	{MaskRQPSN, "RQ_PSN", "the first packet number expected: the peer's SQ_PSN"},
	{MaskMaxRdAtomic, "MAX_QP_RD_ATOMIC", "READs and atomics this side may have in flight"},
	{MaskAltPath, "ALT_PATH", "a second path for migration (InfiniBand only)"},
	{MaskMinRNRTimer, "MIN_RNR_TIMER", "how long a sender waits when no receive is posted"},
	{MaskSQPSN, "SQ_PSN", "the first packet number sent"},
	{MaskMaxDestRdAtomic, "MAX_DEST_RD_ATOMIC", "READs and atomics the peer may have in flight here"},
	{MaskPathMigState, "PATH_MIG_STATE", "path migration (InfiniBand only)"},
	{MaskCap, "CAP", "queue sizes; no transition takes it"},
	{MaskDestQPN, "DEST_QPN", "the peer's queue pair number"},
	{MaskRateLimit, "RATE_LIMIT", "packet pacing, RAW_PACKET queue pairs only"},
}

// Bits returns the bits set in m, lowest first.
func (m Mask) Bits() []Mask {
	var out []Mask
	for m != 0 {
		bit := Mask(1) << bits.TrailingZeros32(uint32(m))
		out, m = append(out, bit), m&^bit
	}
	return out
}

// Name lists the bits without their C prefix: "STATE|PKEY_INDEX|PORT". No bits give "0".
func (m Mask) Name() string { return m.list("") }

// String lists the bits by their C names: "IBV_QP_STATE|IBV_QP_PORT". No bits give "0".
func (m Mask) String() string { return m.list("IBV_QP_") }

// About describes the attribute of a single bit in a few words. It returns "" for a bit
// that libibverbs does not define.
func (m Mask) About() string {
	for _, b := range bitNames {
		if b.bit == m {
			return b.about
		}
	}
	return ""
}

func (m Mask) list(prefix string) string {
	var names []string
	for _, bit := range m.Bits() {
		names = append(names, prefix+bitName(bit))
	}
	return joined(names)
}

func joined(flags []string) string {
	if len(flags) == 0 {
		return "0"
	}
	return strings.Join(flags, "|")
}

func bitName(bit Mask) string {
	for _, b := range bitNames {
		if b.bit == bit {
			return b.name
		}
	}
	return fmt.Sprintf("%#x", uint32(bit))
}
