// The types that verbs shares with qpstate, which owns them: a program that
// imports verbs need not import qpstate for a queue pair's attributes.

package verbs

import "github.com/rawverbs/rawverbs/qpstate"

// The queue pair's types, states and attributes, and the values within them.
type (
	QPType     = qpstate.Type
	QPState    = qpstate.State
	QPAttr     = qpstate.Attr
	QPAttrMask = qpstate.Mask
	QPCap      = qpstate.Cap
	AHAttr     = qpstate.AHAttr
	GRH        = qpstate.GRH
	GID        = qpstate.GID
	MTU        = qpstate.MTU
	QPMigState = qpstate.MigState
	Access     = qpstate.Access
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
