// What verbs shares with qpstate, which owns it. A program that imports verbs needs qpstate only
// for masks of its own (QP.Modify, QP.Query) and to ask the transition table.

package verbs

import (
	"net/netip"

	"github.com/rawverbs/rawverbs/qpstate"
)

// What package qpstate has the fields and values of.
type (
	// QPType is a transport (enum ibv_qp_type): [RC], [UC] or [UD]. The zero value is
	// none of them.
	QPType = qpstate.Type
	// QPState is a queue pair's state (enum ibv_qp_state). The zero value is RESET.
	QPState = qpstate.State
	// QPAttr holds a queue pair's attributes (struct ibv_qp_attr), each with the mask
	// bit that makes it count.
	QPAttr = qpstate.Attr
	// QPAttrMask says which fields of a QPAttr count (enum ibv_qp_attr_mask).
	QPAttrMask = qpstate.Mask
	// QPCap holds the sizes of a queue pair's queues (struct ibv_qp_cap): work
	// requests, elements a request, and bytes of inline data a request.
	QPCap = qpstate.Cap
	// AHAttr is the way to a peer (struct ibv_ah_attr). The zero value leads nowhere:
	// see [PD.CreateAH].
	AHAttr = qpstate.AHAttr
	// GRH is the global part of a way (struct ibv_global_route): on RoCE all of it.
	GRH = qpstate.GRH
	// GID is a port's address (union ibv_gid): 16 bytes in network order.
	GID = qpstate.GID
	// QPEndpoint is what one end of a connection tells the other about its queue pair;
	// its Connect returns the attributes of the moves to RTR and RTS.
	QPEndpoint = qpstate.Endpoint
	// MTU is a path MTU (enum ibv_mtu); MTU.Bytes gives it in bytes.
	MTU = qpstate.MTU
	// QPMigState is the state of path migration (enum ibv_mig_state).
	QPMigState = qpstate.MigState
	// Access says who may do what with a region, a window or through a queue pair
	// (enum ibv_access_flags). The zero value lets this side read, and nobody else
	// do anything.
	Access = qpstate.Access
)

// The transport types.
const (
	RC = qpstate.RC // reliable connection: acknowledged, in order, one peer
	UC = qpstate.UC // unreliable connection: in order, one peer, losses go unnoticed
	UD = qpstate.UD // unreliable datagram: any peer, one packet a message
)

// The states of a queue pair, by their C names: IBV_QPS_RTS is QPSRTS.
const (
	QPSReset = qpstate.Reset // just created: nothing may be posted
	QPSInit  = qpstate.Init  // bound to a port: receives may be posted, none is served
	QPSRTR   = qpstate.RTR   // ready to receive: the peer's messages are accepted
	QPSRTS   = qpstate.RTS   // ready to send: everything works
	QPSSQD   = qpstate.SQD   // send queue drained: sends wait, attributes may change
	QPSSQE   = qpstate.SQE   // send queue error (UC, UD): receives still work
	QPSErr   = qpstate.Error // every work request completes with WR_FLUSH_ERR
)

// The path MTUs. A port's own is [PortAttr.ActiveMTU].
const (
	MTU256  = qpstate.MTU256  // 256 bytes
	MTU512  = qpstate.MTU512  // 512 bytes
	MTU1024 = qpstate.MTU1024 // 1024 bytes: what fits an Ethernet frame of 1500
	MTU2048 = qpstate.MTU2048 // 2048 bytes
	MTU4096 = qpstate.MTU4096 // 4096 bytes: what fits a jumbo frame
)

// MTUFor returns the path MTU of n bytes; ok is false if there is none: see [qpstate.MTUFor].
func MTUFor(n int) (mtu MTU, ok bool) { return qpstate.MTUFor(n) }

// GIDFrom returns the GID of an IP address: see [qpstate.GIDFrom].
func GIDFrom(ip netip.Addr) GID { return qpstate.GIDFrom(ip) }

// ParseGID reads a GID as RDMA tools print it: see [qpstate.ParseGID].
func ParseGID(text string) (GID, error) { return qpstate.ParseGID(text) }

// The access flags. Regions take all of them, windows and queue pairs the remote ones
// (windows of type 2 [AccessZeroBased] too).
const (
	AccessLocalWrite      = qpstate.AccessLocalWrite      // receives, READs and atomics of this side may write to it; the remote rights to write need it
	AccessRemoteWrite     = qpstate.AccessRemoteWrite     // the peer may write
	AccessRemoteRead      = qpstate.AccessRemoteRead      // the peer may read
	AccessRemoteAtomic    = qpstate.AccessRemoteAtomic    // the peer may do atomics
	AccessMWBind          = qpstate.AccessMWBind          // memory windows may be bound to it
	AccessZeroBased       = qpstate.AccessZeroBased       // addresses count from 0
	AccessOnDemand        = qpstate.AccessOnDemand        // pages may be absent until they are used: DeviceAttrEx.ODP
	AccessFlushGlobal     = qpstate.AccessFlushGlobal     // the peer may flush, so that all of this machine see what it wrote: CapFlushGlobal
	AccessFlushPersistent = qpstate.AccessFlushPersistent // the peer may flush to persistent memory, which the region must be of: CapFlushPersistent
	AccessHugeTLB         = qpstate.AccessHugeTLB         // a hint: the memory is of huge pages
	AccessRelaxedOrdering = qpstate.AccessRelaxedOrdering // the device may write its bytes in any order; ignored where it cannot
)
