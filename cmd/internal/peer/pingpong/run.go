// A pingpong's messages: the client sends, and the server answers each message with one, on
// each queue pair separately. A queue pair sends again when its last send has completed and a
// message has arrived. Both ends stop when the given number of messages has gone in each
// direction, on all queue pairs together.

package pingpong

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// The IDs of the work requests, which are bits of queuePair.waitsOn.
const (
	idRecv = 1
	idSend = 2
)

// queuePair is the state of one queue pair between two of its messages.
type queuePair struct {
	*verbs.QP
	send    []verbs.SendWR // the one request, posted again and again
	waitsOn uint64         // what must complete before the next message: idRecv and idSend
}

func (e *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	qps := e.queuePairs(c)
	if e.client && e.pages {
		for _, at := range e.pageStarts() {
			e.mr.Bytes()[at] = 0
		}
	}
	began := time.Now()
	if e.client {
		for _, qp := range c.QPs() {
			if err := qps[qp.QPN()].post(); err != nil {
				return err
			}
		}
	}
	wcs := make([]verbs.WC, e.qps+e.rxDepth)
	for !e.done() {
		n, failed := c.WaitSends(ctx, wcs)
		if failed == nil {
			failed = kit.FirstFailure(wcs[:n])
		}
		for i := range wcs[:n] {
			if wcs[i].Status != verbs.WCSuccess {
				continue
			}
			kit.Progress(ctx)
			if err := e.take(c, qps[wcs[i].QPN], &wcs[i]); err != nil {
				return err
			}
		}
		// Several queue pairs send more messages than necessary, and the peer may have left
		// when it had enough. Failures of the additional messages do not count.
		if failed != nil && !e.done() {
			return e.explain(e.Cause(c, failed))
		}
	}
	e.report(time.Since(began))
	if !e.client && e.pages {
		return e.checkPages()
	}
	return nil
}

func (e *endpoint) done() bool { return e.sent >= e.iters && e.got >= e.iters }

// queuePairs returns all queue pairs by number.
func (e *endpoint) queuePairs(c *rc.Conn) map[uint32]*queuePair {
	qps := map[uint32]*queuePair{}
	for i, qp := range c.QPs() {
		wr := verbs.SendWR{
			ID: idSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(e.header(), e.size)},
			AH: c.AH(i), RemoteQPN: c.PeerEndpoints()[i].QPN, RemoteQKey: defaultQKey, // these three are for datagrams
		}
		if int(qp.Cap().MaxInlineData) >= e.size {
			wr.Flags |= verbs.SendInline
		}
		qps[qp.QPN()] = &queuePair{QP: qp, send: []verbs.SendWR{wr}, waitsOn: idRecv}
	}
	return qps
}

// post sends a message.
func (qp *queuePair) post() error {
	qp.waitsOn = idRecv | idSend
	return qp.PostSend(qp.send)
}

// take counts a completion and continues with its queue pair.
func (e *endpoint) take(c *rc.Conn, qp *queuePair, wc *verbs.WC) error {
	switch wc.ID {
	case idSend:
		e.sent++
	case idRecv:
		if got := int(wc.ByteLen) - e.header(); got != e.size {
			return e.otherSize(got)
		}
		e.got++
		e.queued--
		if e.queued <= e.qps {
			if err := e.postReceives(c); err != nil {
				return err
			}
		}
	}
	qp.waitsOn &^= wc.ID
	if qp.waitsOn == 0 && e.sent < e.iters {
		return qp.post()
	}
	return nil
}

// report logs the result, in the words of the C programs.
func (e *endpoint) report(took time.Duration) {
	bytes := 2 * int64(e.size) * int64(e.iters)
	usec := float64(took.Nanoseconds()) / 1e3
	mbit, each := float64(bytes)*8/usec, usec/float64(e.iters)
	event.PingpongBandwidth.Log(e.Logger, fmt.Sprintf("%d bytes in %.2f seconds = %.2f Mbit/sec", bytes, took.Seconds(), mbit),
		slog.Int64("bytes", bytes), slog.Float64("seconds", took.Seconds()), slog.Float64("mbit_per_s", kit.Rounded(mbit)))
	event.PingpongLatency.Log(e.Logger, fmt.Sprintf("%d iters in %.2f seconds = %.2f usec/iter", e.iters, took.Seconds(), each),
		slog.Int("iters", e.iters), slog.Float64("seconds", took.Seconds()), slog.Float64("usec_per_iter", kit.Rounded(each)))
}

// checkPages checks the last message for the bytes that the client writes with -c.
func (e *endpoint) checkPages() error {
	var wrong []int
	places := e.pageStarts()
	for page, at := range places {
		if e.mr.Bytes()[at] != 0 {
			wrong = append(wrong, page)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.Errorf("invalid data in page %d, and in %d of all %d pages: their first byte is not 0, which the client writes there with -c; try: -c at the client too",
		wrong[0], len(wrong), len(places))
}
