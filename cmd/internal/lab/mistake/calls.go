// The calls of an end. Each makes one verb and records it with its result.

package mistake

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// connect moves both queue pairs to RTS. It records the attributes of show, which the mistake
// is about.
func (b *bench) connect(show qpstate.Mask) {
	must(b.client.toRTS(show))
	must(b.server.toRTS(show))
}

// toRTS moves the queue pair to RTS.
func (e *end) toRTS(show qpstate.Mask) error {
	call := "ibv_modify_qp RESET→INIT→RTR→RTS"
	for _, bit := range show.Bits() {
		call += ", " + e.value(bit)
	}
	m := e.qp.Machine(nil)
	must(m.ToInit(e.attr))
	err := m.ToRTR(e.attr)
	if err == nil {
		err = m.ToRTS(e.attr)
	}
	e.result(call, err)
	return err
}

// value is an attribute of the moves as text.
func (e *end) value(bit qpstate.Mask) string {
	switch bit {
	case qpstate.MaskAV:
		return fmt.Sprintf("dgid %v", e.attr.AH.GRH.DGID)
	case qpstate.MaskRQPSN:
		return fmt.Sprintf("RQ_PSN %#x", e.attr.RQPSN)
	case qpstate.MaskSQPSN:
		return fmt.Sprintf("SQ_PSN %#x", e.attr.SQPSN)
	}
	return bit.Name() + " " + e.attr.Value(bit)
}

// modify is one move, which may fail.
func (e *end) modify(from, to verbs.QPState, mask qpstate.Mask) {
	e.attr.State = to
	err := e.qp.Modify(&e.attr, qpstate.MaskState|mask)
	e.result("ibv_modify_qp "+from.Name()+"→"+to.Name()+", mask "+strings.ReplaceAll((qpstate.MaskState|mask).Name(), "|", " | "), err)
}

// required is the mask of a move, without STATE.
func required(from, to verbs.QPState) qpstate.Mask {
	row, _ := qpstate.Lookup(verbs.RC, from, to)
	return row.Required
}

// reg registers n bytes of new memory.
func (e *end) reg(n int, access verbs.Access) *verbs.MR {
	mr, err := e.pd.AllocMR(n, access)
	mr = keep(e.b, mr, err)
	e.b.step(e.name, fmt.Sprintf("ibv_reg_mr, %d bytes, %s", n, access.Name()), "")
	return mr
}

// sge names n bytes of the end's region, from its byte off on.
func (e *end) sge(off, n int) []verbs.SGE { return []verbs.SGE{e.mr.SGE(off, n)} }

// recv posts a receive.
func (e *end) recv(sgl ...verbs.SGE) {
	err := e.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}})
	e.result("ibv_post_recv, "+bytes(sgl), err)
}

// send posts a signaled request and reports whether the device took it. note says what is
// special about the request.
func (e *end) send(wr verbs.SendWR, note string) bool {
	wr.Flags |= verbs.SendSignaled
	err := e.qp.PostSend([]verbs.SendWR{wr})
	if note != "" {
		note = ", " + note
	}
	e.result("ibv_post_send, "+wr.Opcode.String()+", "+bytes(wr.SGL)+note, err)
	return err == nil
}

// message is a SEND of n bytes.
func (e *end) message(n int) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpSend, SGL: e.sge(0, n)}
}

// to is a one-sided request of n bytes for the beginning of the peer's region.
func (e *end) to(peer *end, op verbs.Opcode, n int) verbs.SendWR {
	return verbs.SendWR{Opcode: op, SGL: e.sge(0, n), RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey()}
}

// sent waits for the completion of a send, received for that of a receive.
func (e *end) sent()     { e.wait(e.sends, "sends") }
func (e *end) received() { e.wait(e.recvs, "receives") }

func (e *end) wait(cq *verbs.CQ, which string) {
	ctx, cancel := context.WithTimeout(e.b.ctx, e.b.patience)
	defer cancel()
	var wcs [1]verbs.WC
	_, err := cq.Wait(ctx, wcs[:])
	call := "ibv_poll_cq, the CQ of " + which
	if errors.Is(err, context.DeadlineExceeded) && e.b.ctx.Err() == nil {
		e.b.step(e.name, call, fmt.Sprintf("nothing in %v", e.b.patience))
		return
	}
	must(err)
	e.completed(call, &wcs[0])
}

func (e *end) completed(call string, wc *verbs.WC) {
	e.saw = append(e.saw, wc.Status)
	if wc.Status != verbs.WCSuccess {
		e.general = diagnosis.OfStatus(uint32(wc.Status))
	}
	result := statusText(wc.Status)
	if wc.Status == verbs.WCSuccess && wc.Opcode == verbs.WCRecv {
		result += fmt.Sprintf(", %d bytes", wc.ByteLen)
	}
	e.b.step(e.name, call, result)
}

// nothing polls the CQ of receives, where nothing should be.
func (e *end) nothing() {
	var wcs [1]verbs.WC
	n, err := e.recvs.Poll(wcs[:])
	must(err)
	const call = "ibv_poll_cq, the CQ of receives"
	if n == 0 {
		e.b.step(e.name, call, "nothing")
		return
	}
	e.completed(call, &wcs[0])
}

// result records a call that may fail.
func (e *end) result(call string, err error) {
	if err == nil {
		e.b.step(e.name, call, "")
		return
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		if !errors.Is(err, syscall.EINVAL) { // as a TransitionError is
			must(err)
		}
		errno = syscall.EINVAL
	}
	e.saw = append(e.saw, errno)
	name, _, _ := strings.Cut(strings.ReplaceAll(call, ",", " "), " ")
	e.general = diagnosis.OfCall(name, errno)
	e.b.step(e.name, call, errnoText(errno)+". This library adds: "+reason(err))
}

// reason returns the part of an error after the call and the errno: the cause, or else what to
// try.
func reason(err error) string {
	var call *verbs.Error
	var post *verbs.PostError
	switch {
	case errors.As(err, &post) && post.Reason != "":
		return fmt.Sprintf("request %d: %s", post.Index, post.Reason)
	case errors.As(err, &call) && call.Err != nil:
		return call.Err.Error()
	}
	_, try, _ := strings.Cut(err.Error(), "; try: ")
	return "try: " + try
}

func bytes(sgl []verbs.SGE) string {
	n := 0
	for _, s := range sgl {
		n += int(s.Length)
	}
	return fmt.Sprintf("%d bytes", n)
}

func statusText(s verbs.WCStatus) string { return fmt.Sprintf("%v (%d)", s, int(s)) }

func errnoText(e syscall.Errno) string { return fmt.Sprintf("%s (%d)", unix.ErrnoName(e), int(e)) }
