// Package qpstate describes the state machine of a queue pair as data: the states, the
// attributes of each transition, and the table of legal transitions.
//
// A queue pair (QP) starts in RESET and is fully usable only in RTS. The program moves
// the QP there in three steps. INIT sets its own port, RTR sets the path to the peer
// and the receiving side, RTS sets the sending side:
//
//	RESET ──► INIT ──► RTR ──► RTS ──► SQD
//	            any state ──► RESET, any state but RESET ──► ERR
//
// Each move is one call of ibv_modify_qp with a structure of attributes and a mask. The
// mask names the fields that count. Each move has required and optional mask bits. The
// kernel refuses a move if a required bit is missing, or if any other bit is set that
// is not optional. The kernel returns EINVAL without the reason; [Check] names the bit:
//
//	err := qpstate.Check(qpstate.RC, qpstate.Init, qpstate.RTR, mask)
//	// RC INIT→RTR: missing DEST_QPN; not allowed here: PORT (…)
//
// A [Machine] drives a real queue pair (anything with a Modify method, such as
// *verbs.QP) through the moves. It takes the required mask from the table and reports
// each step to an observer.
//
// A Machine is for one goroutine at a time. Everything else is functions and plain
// values, which several goroutines may use at once.
//
// The package needs no RDMA device and imports only the standard library and
// pkg/errors.
//
// # Examples
//
//	ExampleCheck    why a mask is wrong
//	ExampleMachine  moves, their masks, a refusal
package qpstate
