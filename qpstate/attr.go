// The attributes of a queue pair and of the path to its peer, and how each prints.

package qpstate

import (
	"fmt"
	"net/netip"
	"time"
)

// Attr holds the attributes of a queue pair (struct ibv_qp_attr). Each call also takes
// a [Mask]: a field counts if the mask has the bit named in the field's comment. Other
// fields are ignored. Attr is a plain value.
type Attr struct {
	State            State    // MaskState: the state to move to
	CurState         State    // MaskCurState: the state the caller expects; the device refuses the move from any other state
	PathMTU          MTU      // MaskPathMTU: the same at both ends
	PathMigState     MigState // MaskPathMigState
	QKey             uint32   // MaskQKey; UD only
	RQPSN            uint32   // MaskRQPSN: the first packet number expected; 24 bits
	SQPSN            uint32   // MaskSQPSN: the first packet number sent; 24 bits
	DestQPN          uint32   // MaskDestQPN: the peer's queue pair; 24 bits
	Access           Access   // MaskAccessFlags: what the peer may do through this QP
	Cap              Cap      // set by a query only
	AH               AHAttr   // MaskAV: the primary path
	AltAH            AHAttr   // MaskAltPath: the second path
	PKeyIndex        uint16   // MaskPKeyIndex: a slot of the port's partition key table; 0 on RoCE
	AltPKeyIndex     uint16   // MaskAltPath: PKeyIndex on the second path
	EnSQDAsyncNotify bool     // MaskEnSQDAsyncNotify: an event when the send queue has drained
	SQDraining       bool     // set by a query only: the QP is in SQD and has unfinished sends
	MaxRdAtomic      uint8    // MaskMaxRdAtomic: READs and atomics this side may have in flight
	MaxDestRdAtomic  uint8    // MaskMaxDestRdAtomic: READs and atomics the peer may have in flight here
	MinRNRTimer      uint8    // MaskMinRNRTimer: code 0…31, see [RNRTimer]
	PortNum          uint8    // MaskPort; ports count from 1
	Timeout          uint8    // MaskTimeout: code 0…31, see [ACKTimeout]
	RetryCnt         uint8    // MaskRetryCnt: 0…7
	RNRRetry         uint8    // MaskRNRRetry: 0…6; 7 means forever
	AltPortNum       uint8    // MaskAltPath: the second path's port
	AltTimeout       uint8    // MaskAltPath: Timeout on the second path
	RateLimit        uint32   // MaskRateLimit, kbit/s
}

// AHAttr is the path to a peer (struct ibv_ah_attr): the peer's LID on InfiniBand, its
// GID on RoCE. The GID travels in the global routing header. AHAttr is a plain value;
// the zero value is not a valid path.
type AHAttr struct {
	GRH         GRH    // the global part; on RoCE the whole path
	DLID        uint16 // InfiniBand only
	SL          uint8  // service level, 0…15
	SrcPathBits uint8  // InfiniBand only
	StaticRate  uint8  // enum ibv_rate; 0 is the port's own rate
	IsGlobal    bool   // GRH counts; always true on RoCE
	PortNum     uint8  // must be the QP's own port
}

// GRH is the global routing header of a path (struct ibv_global_route).
type GRH struct {
	DGID         GID    // the peer
	FlowLabel    uint32 // 20 bits; on RoCE it may choose the UDP source port. 0: no label
	SGIDIndex    uint8  // this side's address: an index into the port's GID table
	HopLimit     uint8  // for connected QPs on RoCE the kernel sets it from the route
	TrafficClass uint8  // on RoCE the DSCP and ECN bits of the IP header
}

// Cap holds the sizes of a QP's queues (struct ibv_qp_cap): work requests per queue,
// scatter/gather elements per request and inline bytes per request. The device may
// grant more than the caller asked for.
type Cap struct {
	MaxSendWR     uint32 // work requests in the send queue
	MaxRecvWR     uint32 // work requests in the receive queue
	MaxSendSGE    uint32 // elements per send
	MaxRecvSGE    uint32 // elements per receive
	MaxInlineData uint32 // inline bytes per send; 0: sends cannot be inline
}

// GID is a port's address (union ibv_gid): 16 bytes in network order. On RoCEv2
// it is an IPv6 address, or an IPv4 address mapped into one.
type GID [16]byte

// GIDFrom returns the GID of an IP address. IPv4 becomes ::ffff:a.b.c.d; a zone is
// dropped. The zero Addr gives the zero GID.
func GIDFrom(ip netip.Addr) GID { return ip.As16() }

// IsZero reports whether the GID is zero, as in an empty slot of a GID table.
func (g GID) IsZero() bool { return g == GID{} }

// Addr returns the GID as an IP address. An IPv4-mapped GID gives the IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String returns the GID as an IPv6 address: "fe80::1", "::ffff:10.0.0.1".
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// MTU is a path MTU (enum ibv_mtu): the payload bytes of one full packet.
type MTU uint8

// The path MTUs of InfiniBand and RoCE.
const (
	MTU256  MTU = 1 + iota // 256 bytes
	MTU512                 // 512 bytes
	MTU1024                // 1024 bytes: the largest that fits an Ethernet frame of 1500
	MTU2048                // 2048 bytes
	MTU4096                // 4096 bytes: the largest that fits a jumbo frame
)

// MTUFor returns the MTU of exactly n bytes. ok is false unless n is 256, 512, 1024,
// 2048 or 4096.
func MTUFor(n int) (mtu MTU, ok bool) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, true
		}
	}
	return 0, false
}

// Bytes returns the payload of one full packet in bytes, or 0 for an unknown value.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// String returns the C name: "IBV_MTU_1024".
func (m MTU) String() string {
	if n := m.Bytes(); n != 0 {
		return fmt.Sprintf("IBV_MTU_%d", n)
	}
	return fmt.Sprintf("ibv_mtu(%d)", uint8(m))
}

// MigState is a path's migration state (enum ibv_mig_state). RoCE has no path
// migration.
type MigState uint8

// The migration states.
const (
	MigMigrated MigState = iota // the QP uses the second path, or has no second path
	MigRearm                    // the device should try to become armed
	MigArmed                    // both sides are ready to move to the second path
)

// String returns the C name: "IBV_MIG_ARMED".
func (m MigState) String() string {
	switch m {
	case MigMigrated:
		return "IBV_MIG_MIGRATED"
	case MigRearm:
		return "IBV_MIG_REARM"
	case MigArmed:
		return "IBV_MIG_ARMED"
	}
	return fmt.Sprintf("ibv_mig_state(%d)", uint8(m))
}

// Access is the set of rights to a memory region or through a QP (enum
// ibv_access_flags). With the zero value this side may read a region; every other
// access is refused.
type Access uint32

// The access flags. A QP takes only the three remote ones.
const (
	AccessLocalWrite      Access = 1 << 0  // this side may write to the region; remote write and atomic need it too
	AccessRemoteWrite     Access = 1 << 1  // the peer may write
	AccessRemoteRead      Access = 1 << 2  // the peer may read
	AccessRemoteAtomic    Access = 1 << 3  // the peer may do atomics
	AccessMWBind          Access = 1 << 4  // memory windows may be bound to the region
	AccessZeroBased       Access = 1 << 5  // the region's addresses count from 0
	AccessOnDemand        Access = 1 << 6  // the region's pages may be absent until they are used
	AccessHugeTLB         Access = 1 << 7  // a hint: the region consists of huge pages
	AccessFlushGlobal     Access = 1 << 8  // the peer may flush its writes until they are globally visible
	AccessFlushPersistent Access = 1 << 9  // the peer may flush its writes to persistent memory
	AccessRelaxedOrdering Access = 1 << 20 // the device may write the region's bytes in any order; a hint
)

var accessNames = []struct {
	bit  Access
	name string
}{
	{AccessLocalWrite, "LOCAL_WRITE"}, {AccessRemoteWrite, "REMOTE_WRITE"},
	{AccessRemoteRead, "REMOTE_READ"}, {AccessRemoteAtomic, "REMOTE_ATOMIC"},
	{AccessMWBind, "MW_BIND"}, {AccessZeroBased, "ZERO_BASED"},
	{AccessOnDemand, "ON_DEMAND"}, {AccessHugeTLB, "HUGETLB"},
	{AccessFlushGlobal, "FLUSH_GLOBAL"}, {AccessFlushPersistent, "FLUSH_PERSISTENT"},
	{AccessRelaxedOrdering, "RELAXED_ORDERING"},
}

// Name lists the flags without their C prefix, such as "LOCAL_WRITE|REMOTE_READ". No
// flags give "0".
func (a Access) Name() string { return a.list("") }

// String lists the flags by their C names. No flags give "0".
func (a Access) String() string { return a.list("IBV_ACCESS_") }

func (a Access) list(prefix string) string {
	var names []string
	for _, n := range accessNames {
		if a&n.bit != 0 {
			names, a = append(names, prefix+n.name), a&^n.bit
		}
	}
	if a != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(a)))
	}
	return joined(names)
}

// rnrTimers maps the 5-bit code of MIN_RNR_TIMER to a time in units of 10 µs.
var rnrTimers = [32]int{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimer returns the time that a MIN_RNR_TIMER code stands for. A sender waits that
// long before it resends to a QP that had no receive posted. Code 0 is the longest,
// 655.36 ms; code 1 is the shortest, 10 µs. Only the low five bits count.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&31]) * 10 * time.Microsecond
}

// ACKTimeout returns the time that a TIMEOUT code stands for. A sender waits that long
// for an acknowledgement: 4.096 µs · 2^code. Code 0 waits forever; ACKTimeout then
// returns 0. Only the low five bits count.
func ACKTimeout(code uint8) time.Duration {
	if code &= 31; code == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << code
}
