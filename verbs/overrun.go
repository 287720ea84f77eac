// The overrun of a CQ: its error from polls, waits and posts. The provider calls
// ProviderCQInit.Overran, so no subscription to the device's events is needed.

package verbs

import (
	"fmt"
	"net"
)

// OverrunError says that a CQ got more completions than it has entries. Some completions are lost, so
// some work requests never complete. errors.As finds it in the errors of [CQ.Poll] and [CQ.Wait] when
// no completions are left, and in those of [QP.PostSend] and [QP.PostRecv].
type OverrunError struct {
	CQ    *CQ // the CQ that overran
	Depth int // the CQ's entries
}

// Error names the depth and says what to try.
func (e *OverrunError) Error() string {
	return withRemedies(fmt.Sprintf("the CQ overran: it has %d entries and got more completions, so some are lost", e.Depth),
		"a new CQ, as deep as the queues that complete there (SQ + RQ), and new queue pairs")
}

func (cq *CQ) overrun() error { return &OverrunError{CQ: cq, Depth: cq.Depth()} }

// polled makes the error of a poll that returned n completions. overran says whether the CQ had
// overrun before the poll.
func (cq *CQ) polled(op string, n int, overran bool, err error) error {
	if err == nil && n == 0 && overran {
		err = cq.overrun()
	}
	return cq.fail(op, "", err)
}

// overran reports whether completions of the queue pair are lost.
func (qp *QP) overran() bool {
	return qp.init.SendCQ.overran.Load() || qp.init.RecvCQ.overran.Load()
}

// overrunRefused makes the error of a post after an overrun. Other posts to the queue would wait for
// a completion that may never come.
func (qp *QP) overrunRefused(op string) error {
	if qp.ended() {
		return qp.refused(PostError{Op: op, QPN: qp.QPN(), Err: net.ErrClosed}, fault{})
	}
	cq, role := qp.init.SendCQ, "it is the queue pair's SendCQ"
	if !cq.overran.Load() {
		cq, role = qp.init.RecvCQ, "it is the queue pair's RecvCQ"
	}
	return &PostError{Op: op, QPN: qp.QPN(), Err: cq.overrun(), Reason: role}
}
