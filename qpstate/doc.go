// Package qpstate is the queue pair's state machine as data: its states, the attributes
// a move between two states takes, and the whole table of which moves are legal.
//
// A queue pair (QP) starts in RESET and works only in RTS. Between the two the
// program gives it, step by step, what it must know of its own port (INIT), of
// its peer's sending side (RTR) and of its own sending side (RTS):
//
//	RESET ──► INIT ──► RTR ──► RTS ──► SQD
//	            any state ──► RESET, any state but RESET ──► ERR
//
// Each move is one call of ibv_modify_qp with a structure of attributes and a
// mask that names the fields that count. The kernel accepts a move only if every
// required bit is there and no bit is there that is neither required nor
// optional; otherwise it says EINVAL and no more. [Check] says which bit:
//
//	err := qpstate.Check(qpstate.RC, qpstate.Init, qpstate.RTR, mask)
//	// RC INIT→RTR: missing DEST_QPN; not allowed here: PORT (…)
//
// A [Machine] drives a real queue pair (anything with a Modify method, such as
// *verbs.QP) through the moves, fills in the required mask from the table and
// shows each step to an observer.
//
// Everything here but a Machine may be used by several goroutines at once: it is
// functions and plain values.
//
// The package is pure: it imports the standard library and pkg/errors alone and
// can be read, tested and taught from without any RDMA device.
package qpstate
