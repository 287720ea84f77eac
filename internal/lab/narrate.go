// Telling what happens: a job posts and waits through a narrator, which tells of
// each work request and completion in the order in which they happen.

package lab

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/trace"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// tell logs one event of a job with the attributes that package rc documents.
func tell(log *slog.Logger, path, event, verb, text string, attrs ...slog.Attr) {
	tellAt(slog.LevelInfo, log, path, event, verb, text, attrs...)
}

func tellAt(level slog.Level, log *slog.Logger, path, event, verb, text string, attrs ...slog.Attr) {
	head := []slog.Attr{slog.String("event", event)}
	if verb != "" {
		head = append(head, slog.String("verb", verb))
	}
	head = append(head, slog.String("path", path))
	log.LogAttrs(context.Background(), level, text, append(head, attrs...)...)
}

// narrator does what a job asks of its connection, and tells of it: each post and
// completion, and at the levels of -v and -vv the dumps of what they carry.
type narrator struct{ log *slog.Logger }

// quieter tells at the level of -v what n tells to all: for what is done over and
// over.
func (n narrator) quieter() narrator { return narrator{slog.New(demoted{n.log.Handler()})} }

// demoted makes Debug of Info.
type demoted struct{ slog.Handler }

func demote(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}

func (d demoted) Enabled(ctx context.Context, level slog.Level) bool {
	return d.Handler.Enabled(ctx, demote(level))
}

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	return d.Handler.Handle(ctx, r)
}

func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }

// postSend posts to the send queue in one call.
func (n narrator) postSend(qp *verbs.QP, wrs ...verbs.SendWR) error {
	for i := range wrs {
		wr := &wrs[i]
		name := strings.TrimPrefix(wr.Opcode.String(), "IBV_WR_")
		attrs := []slog.Attr{slog.Uint64("wr_id", wr.ID), slog.Int("bytes", lengthOf(wr.SGL))}
		attrs = append(attrs, opcodeAttrs(wr)...)
		attrs = append(attrs, slog.String("flags", wr.Flags.String()))
		tell(n.log, "data", "wr.posted", "ibv_post_send", "post "+name, attrs...)
		n.dumpSGL(name, wr.SGL)
		tellAt(slog.LevelDebug, n.log, "info", "wr.dump", "ibv_post_send", "WR:",
			append([]slog.Attr{slog.Uint64("wr_id", wr.ID), slog.String("opcode", wr.Opcode.String()), slog.String("send_flags", wr.Flags.String()),
				slog.Int("num_sge", len(wr.SGL))}, opcodeAttrs(wr)...)...)
	}
	return qp.PostSend(wrs)
}

// opcodeAttrs are the fields that the opcode uses.
func opcodeAttrs(wr *verbs.SendWR) []slog.Attr {
	var attrs []slog.Attr
	switch wr.Opcode {
	case verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpRDMARead, verbs.OpAtomicCmpAndSwp, verbs.OpAtomicFetchAndAdd:
		attrs = append(attrs, slog.String("remote_addr", fmt.Sprintf("%#x", wr.RemoteAddr)), slog.String("rkey", fmt.Sprintf("%#x", wr.RKey)))
	}
	switch wr.Opcode {
	case verbs.OpSendWithImm, verbs.OpRDMAWriteWithImm:
		attrs = append(attrs, slog.Int64("imm", int64(wr.Imm)))
	case verbs.OpAtomicFetchAndAdd:
		attrs = append(attrs, slog.Uint64("add", wr.CompareAdd))
	case verbs.OpAtomicCmpAndSwp:
		attrs = append(attrs, slog.Uint64("compare", wr.CompareAdd), slog.Uint64("swap", wr.Swap))
	}
	return attrs
}

// postRecv posts to the receive queue in one call.
func (n narrator) postRecv(qp *verbs.QP, wrs ...verbs.RecvWR) error {
	for i := range wrs {
		tell(n.log, "fast", "wr.posted", "ibv_post_recv", "post RECV", slog.Uint64("wr_id", wrs[i].ID), slog.Int("bytes", lengthOf(wrs[i].SGL)))
		n.dumpSGL("RECV", wrs[i].SGL)
	}
	return qp.PostRecv(wrs)
}

func lengthOf(sgl []verbs.SGE) (total int) {
	for _, s := range sgl {
		total += int(s.Length)
	}
	return total
}

func (n narrator) dumpSGL(name string, sgl []verbs.SGE) {
	for _, s := range sgl {
		tellAt(slog.LevelDebug, n.log, "info", "sge.dump", "", "SGE("+name+"):", slog.String("addr", fmt.Sprintf("%#x", s.Addr)),
			slog.Int("length", int(s.Length)), slog.String("lkey", fmt.Sprintf("%#x", s.LKey)))
	}
}

// waitSend waits for the next completion of the send queue, waitRecv of the
// receive queue. A failed one is told too; what it was for is said in the error.
func (n narrator) waitSend(ctx context.Context, c *rc.Conn, what string) (verbs.WC, error) {
	wc, err := n.wait(ctx, c.WaitSend, "send")
	return wc, errors.WithMessagef(err, "waiting for %s", what)
}

func (n narrator) waitRecv(ctx context.Context, c *rc.Conn, what string) (verbs.WC, error) {
	wc, err := n.wait(ctx, c.WaitRecv, "receive")
	return wc, errors.WithMessagef(n.cause(c, err), "waiting for %s", what)
}

func (n narrator) wait(ctx context.Context, next func(context.Context) (verbs.WC, error), queue string) (verbs.WC, error) {
	tellAt(trace.LevelWaits, n.log, "info", "wait.begun", "ibv_req_notify_cq",
		"wait for a completion of the "+queue+" queue: poll, arm, poll again, sleep on the channel")
	wc, err := next(ctx)
	if err == nil || errors.As(err, new(*verbs.WCError)) {
		n.completed(&wc)
		progress(ctx)
	}
	return wc, err
}

// completed tells of a completion. Of one that failed only the status, the
// request and the queue pair are valid.
func (n narrator) completed(wc *verbs.WC) {
	attrs := []slog.Attr{slog.Uint64("wr_id", wc.ID), slog.String("status", wc.Status.String())}
	if wc.Status == verbs.WCSuccess {
		attrs = append(attrs, slog.String("opcode", wc.Opcode.String()))
		if wc.Opcode == verbs.WCRecv || wc.Opcode == verbs.WCRecvRDMAWithImm || wc.Opcode == verbs.WCRDMARead {
			attrs = append(attrs, slog.Int("byte_len", int(wc.ByteLen)))
		}
		if wc.Flags&verbs.WCWithImm != 0 {
			attrs = append(attrs, slog.Int64("imm", int64(wc.Imm())))
		}
	}
	tell(n.log, "data", "wr.completed", "ibv_poll_cq", "completion", attrs...)
	tellAt(slog.LevelDebug, n.log, "info", "wc.dump", "ibv_poll_cq", "WC:", slog.Uint64("wr_id", wc.ID),
		slog.Int("status", int(wc.Status)), slog.String("opcode", wc.Opcode.String()), slog.String("vendor_err", fmt.Sprintf("%#x", wc.VendorErr)),
		slog.Int("byte_len", int(wc.ByteLen)), slog.String("imm", fmt.Sprintf("%#x", wc.Imm())), slog.String("qp_num", fmt.Sprintf("%#06x", wc.QPN)),
		slog.String("wc_flags", wc.Flags.String()))
}

// memory dumps the first bytes of what is in a region.
func (n narrator) memory(what string, data []byte) {
	const shown = 32
	tellAt(trace.LevelWaits, n.log, "info", "memory.dump", "", what+":", slog.Int("bytes", len(data)),
		slog.String("first", hex.EncodeToString(data[:min(len(data), shown)])))
}

// maxTold is how many bytes of a text are told: what Linux allows an argument of a
// command line to have. A peer may write much more into a region that it was given.
const maxTold = 128 << 10

// textAttr is a text as it is told.
func textAttr(text string) slog.Attr { return slog.String("text", cut(text, maxTold)) }

// closeAll closes what a run opened. The first error stands: the run's own, if it
// has one, since what follows it is mostly its consequence.
func closeAll(err *error, closers ...io.Closer) {
	for _, c := range closers {
		if cerr := c.Close(); cerr != nil && *err == nil {
			*err = cerr
		}
	}
}
