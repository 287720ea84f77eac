// Names of qpstate's types and values in this package. A program that imports verbs needs qpstate
// only for its own masks (QP.Modify, QP.Query) and for the transition table.

package verbs

import (
	"net/netip"

	"github.com/rawverbs/rawverbs/qpstate"
)

// Types of package qpstate.
type (
	// QPType is a transport type (enum ibv_qp_type): [RC], [UC] or [UD]. The zero value is invalid.
	QPType = qpstate.Type
	// QPState is a queue pair's state (enum ibv_qp_state). The zero value is RESET.
	QPState = qpstate.State
	// QPAttr holds a queue pair's attributes (struct ibv_qp_attr). A mask says which of them count.
	QPAttr = qpstate.Attr
	// QPAttrMask says which fields of a QPAttr count (enum ibv_qp_attr_mask).
	QPAttrMask = qpstate.Mask
	// QPCap holds the sizes of a queue pair's queues (struct ibv_qp_cap): work requests per queue,
	// elements per request, and inline bytes per request.
	QPCap = qpstate.Cap
	// AHAttr is the path to a peer (struct ibv_ah_attr). The zero value is not a valid path: see
	// [PD.CreateAH].
	AHAttr = qpstate.AHAttr
	// GRH is the global part of a path (struct ibv_global_route); on RoCE it is the whole path.
	GRH = qpstate.GRH
	// GID is a port's address (union ibv_gid): 16 bytes in network order.
	GID = qpstate.GID
	// QPEndpoint is what one end of a connection sends to the other about its queue pair. Its
	// Connect method returns the attributes of the moves to RTR and RTS.
	QPEndpoint = qpstate.Endpoint
	// MTU is a path MTU (enum ibv_mtu); MTU.Bytes returns it in bytes.
	MTU = qpstate.MTU
	// QPMigState is the state of path migration (enum ibv_mig_state).
	QPMigState = qpstate.MigState
	// Access is the set of rights to a region or a window, or through a queue pair (enum
	// ibv_access_flags). With the zero value this side may read; every other access is refused.
	Access = qpstate.Access
)

// The transport types.
const (
	RC = qpstate.RC // reliable connection: acknowledged, in order, one peer
	UC = qpstate.UC // unreliable connection: in order, one peer, losses are not reported
	UD = qpstate.UD // unreliable datagram: any peer, one packet per message
)

// The states of a queue pair. The names are the C names: IBV_QPS_RTS is QPSRTS.
const (
	QPSReset = qpstate.Reset // just created: nothing may be posted
	QPSInit  = qpstate.Init  // bound to a port: receives may be posted, nothing arrives yet
	QPSRTR   = qpstate.RTR   // ready to receive: the peer's messages are accepted
	QPSRTS   = qpstate.RTS   // ready to send: everything works
	QPSSQD   = qpstate.SQD   // send queue drained: sends wait, attributes may change
	QPSSQE   = qpstate.SQE   // send queue error (UC, UD): receives still work
	QPSErr   = qpstate.Error // every work request completes with WR_FLUSH_ERR
)

// The path MTUs. [PortAttr.ActiveMTU] is the largest one of a port.
const (
	MTU256  = qpstate.MTU256  // 256 bytes
	MTU512  = qpstate.MTU512  // 512 bytes
	MTU1024 = qpstate.MTU1024 // 1024 bytes: the largest that fits an Ethernet frame of 1500
	MTU2048 = qpstate.MTU2048 // 2048 bytes
	MTU4096 = qpstate.MTU4096 // 4096 bytes: the largest that fits a jumbo frame
)

// MTUFor returns the path MTU of exactly n bytes. ok is false if there is none: see [qpstate.MTUFor].
func MTUFor(n int) (mtu MTU, ok bool) { return qpstate.MTUFor(n) }

// GIDFrom returns the GID of an IP address: see [qpstate.GIDFrom].
func GIDFrom(ip netip.Addr) GID { return qpstate.GIDFrom(ip) }

// ParseGID reads a GID as RDMA tools print it: see [qpstate.ParseGID].
func ParseGID(text string) (GID, error) { return qpstate.ParseGID(text) }

// The access flags. Regions take all of them. Windows and queue pairs take the remote ones; windows
// of type 2 also take [AccessZeroBased].
const (
	AccessLocalWrite      = qpstate.AccessLocalWrite      // receives, READs and atomics of this side may write; remote rights to write need it too
	AccessRemoteWrite     = qpstate.AccessRemoteWrite     // the peer may write
	AccessRemoteRead      = qpstate.AccessRemoteRead      // the peer may read
	AccessRemoteAtomic    = qpstate.AccessRemoteAtomic    // the peer may do atomics
	AccessMWBind          = qpstate.AccessMWBind          // memory windows may be bound to the region
	AccessZeroBased       = qpstate.AccessZeroBased       // addresses count from 0
	AccessOnDemand        = qpstate.AccessOnDemand        // pages may be absent until they are used: see DeviceAttrEx.ODP
	AccessFlushGlobal     = qpstate.AccessFlushGlobal     // the peer may flush its writes until all CPUs and devices here see them: CapFlushGlobal
	AccessFlushPersistent = qpstate.AccessFlushPersistent // the peer may flush its writes to persistent memory, which the region must consist of: CapFlushPersistent
	AccessHugeTLB         = qpstate.AccessHugeTLB         // a hint: the memory consists of huge pages
	AccessRelaxedOrdering = qpstate.AccessRelaxedOrdering // the device may write the bytes in any order; ignored by devices that cannot
)
