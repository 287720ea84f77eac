// Names of package action.

package workbench

import "github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"

// The types of actions.
type (
	// Action is one step of a session.
	Action = action.Action
	// Cap is the sizes of a queue pair's queues.
	Cap = action.Cap
	// AV is an address vector.
	AV = action.AV
	// WR is a work request.
	WR = action.WR
	// SGE is an element of a work request.
	SGE = action.SGE
	// Remote is memory of the peer.
	Remote = action.Remote
	// Bind is what a window is bound to.
	Bind = action.Bind
	// Flush is what a FLUSH flushes.
	Flush = action.Flush
	// Num is a number of up to 64 bits.
	Num = action.Num
)
