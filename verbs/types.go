// The types that verbs shares with qpstate, which owns them: a program that
// imports verbs need not import qpstate for a queue pair's attributes.

package verbs

import "github.com/rawverbs/rawverbs/qpstate"

// What package qpstate has the fields and values of.
type (
	// QPType is a transport (enum ibv_qp_type): [RC], [UC] or [UD].
	QPType = qpstate.Type
	// QPState is a queue pair's state (enum ibv_qp_state).
	QPState = qpstate.State
	// QPAttr holds a queue pair's attributes (struct ibv_qp_attr).
	QPAttr = qpstate.Attr
	// QPAttrMask says which fields of a QPAttr count (enum ibv_qp_attr_mask).
	QPAttrMask = qpstate.Mask
	// QPCap holds the sizes of a queue pair's queues (struct ibv_qp_cap): work
	// requests, elements a request, and bytes of inline data a request.
	QPCap = qpstate.Cap
	// AHAttr is the way to a peer (struct ibv_ah_attr).
	AHAttr = qpstate.AHAttr
	// GRH is the global part of a way (struct ibv_global_route).
	GRH = qpstate.GRH
	// GID is a port's address (union ibv_gid): 16 bytes in network order.
	GID = qpstate.GID
	// MTU is a path MTU (enum ibv_mtu); MTU.Bytes gives it in bytes.
	MTU = qpstate.MTU
	// QPMigState is the state of path migration (enum ibv_mig_state).
	QPMigState = qpstate.MigState
	// Access says who may do what with a region, a window or through a queue pair
	// (enum ibv_access_flags).
	Access = qpstate.Access
)

// The transport types.
const (
	RC = qpstate.RC
	UC = qpstate.UC
	UD = qpstate.UD
)

// The access flags of memory regions and queue pairs.
const (
	AccessLocalWrite      = qpstate.AccessLocalWrite
	AccessRemoteWrite     = qpstate.AccessRemoteWrite
	AccessRemoteRead      = qpstate.AccessRemoteRead
	AccessRemoteAtomic    = qpstate.AccessRemoteAtomic
	AccessMWBind          = qpstate.AccessMWBind
	AccessZeroBased       = qpstate.AccessZeroBased
	AccessOnDemand        = qpstate.AccessOnDemand
	AccessHugeTLB         = qpstate.AccessHugeTLB
	AccessRelaxedOrdering = qpstate.AccessRelaxedOrdering
)
