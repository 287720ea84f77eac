// The two state machines of the jobs exchange-write and exchange-read. Both ends run
// both: one for what this end sends, one for what it receives.
//
//	send     SS_INIT ──> SS_MR_SENT ──> SS_RDMA_SENT ──> SS_DONE_SENT
//	receive  RS_INIT ──> RS_MR_RECV ──> RS_DONE_RECV
//
// Completions move the send machine; posts do not. SS_MR_SENT means that the peer has
// acknowledged MSG_MR. The two machines are independent, except in three places. The passive
// end sends its MSG_MR after it has received the peer's. The WRITE or READ needs SS_MR_SENT and
// the peer's region. The job ends when both machines are in their last states. Nothing else
// orders the machines: an acknowledgement may be lost and repeated while the peer has the
// message and goes on.
//
// This file uses no device and no memory. Its input is what happened; its output is what to do.

package exchange

import "fmt"

type sendState int

const (
	ssInit     sendState = iota
	ssMRSent             // the peer has this end's region
	ssRDMASent           // this end's WRITE or READ is complete
	ssDoneSent           // the peer has this end's MSG_DONE
)

// String returns the name that C programs with such states print: "SS_MR_SENT".
func (s sendState) String() string {
	return nameOf(int(s), "sendState", "SS_INIT", "SS_MR_SENT", "SS_RDMA_SENT", "SS_DONE_SENT")
}

type recvState int

const (
	rsInit     recvState = iota
	rsMRRecv             // this end has the peer's region
	rsDoneRecv           // the peer no longer needs this end's region
)

func (s recvState) String() string {
	return nameOf(int(s), "recvState", "RS_INIT", "RS_MR_RECV", "RS_DONE_RECV")
}

// happening is what can move a machine.
type happening int

const (
	sentMR   happening = iota // the SEND of MSG_MR completed
	didRDMA                   // the WRITE or READ completed
	sentDone                  // the SEND of MSG_DONE completed
	gotMR                     // a receive completed, with the peer's MSG_MR
	gotDone                   // a receive completed, with the peer's MSG_DONE
)

func (h happening) String() string {
	return nameOf(int(h), "happening", "MSG_MR was acknowledged", "the RDMA completed", "MSG_DONE was acknowledged",
		"MSG_MR came", "MSG_DONE came")
}

func nameOf(i int, typ string, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, i)
	}
	return names[i]
}

// The state in which each happening is expected. The happening moves the machine to the next
// state.
var (
	findsSend = map[happening]sendState{sentMR: ssInit, didRDMA: ssMRSent, sentDone: ssRDMASent}
	findsRecv = map[happening]recvState{gotMR: rsInit, gotDone: rsMRRecv}
)

// action is something to do.
type action int

const (
	sendMR   action = iota // SEND MSG_MR
	doRDMA                 // WRITE to the peer's region, or READ it
	sendDone               // SEND MSG_DONE
	release                // the peer no longer needs this end's region
	finish                 // nothing is left to do, at either end
	leave                  // like finish, but without sending MSG_DONE
)

func (a action) String() string {
	return nameOf(int(a), "action", "send MSG_MR", "do the RDMA", "send MSG_DONE", "release the region", "finish", "leave")
}

// states are the two machines of one end.
type states struct {
	active bool // this end begins; the other answers
	leaves bool // this end sends no MSG_DONE: see leave_early.go

	send sendState
	recv recvState
}

// begin returns what to do before anything has happened.
func (x *states) begin() []action {
	if x.active {
		return []action{sendMR}
	}
	return nil
}

// on moves the machine that h belongs to, and returns what to do now, in order. The error
// is an *orderError; then nothing has moved.
func (x *states) on(h happening) ([]action, error) {
	if from, ok := findsSend[h]; ok {
		if x.send != from {
			return nil, &orderError{h, x.send, from}
		}
		x.send = from + 1
	}
	if from, ok := findsRecv[h]; ok {
		if x.recv != from {
			return nil, &orderError{h, x.recv, from}
		}
		x.recv = from + 1
	}
	return x.due(h), nil
}

// due returns what this end can do now that h has moved its machine.
func (x *states) due(h happening) (do []action) {
	switch {
	case h == gotMR && !x.active:
		return []action{sendMR}
	case h == didRDMA && !x.leaves:
		return []action{sendDone}
	case h == gotDone:
		do = append(do, release)
	}
	switch {
	case (h == sentMR || h == gotMR) && x.send == ssMRSent && x.recv != rsInit:
		do = append(do, doRDMA)
	case x.send == ssDoneSent && x.recv == rsDoneRecv:
		do = append(do, finish)
	case x.leaves && x.send == ssRDMASent && x.recv == rsDoneRecv:
		do = append(do, leave)
	}
	return do
}

// orderError reports something that happened in a wrong state.
type orderError struct {
	happening happening
	in, needs fmt.Stringer // states
}

// Error names the message, the state, and the end that broke the order.
func (e *orderError) Error() string {
	text := fmt.Sprintf("%v in the state %v, but it belongs to %v", e.happening, e.in, e.needs)
	if _, peers := findsRecv[e.happening]; peers {
		text += ": the peer breaks the order MSG_MR, MSG_DONE; try: a peer of this program's version"
	}
	return text
}
