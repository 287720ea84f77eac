// Logging what happens: a job posts and waits through a Tracer, which logs each work
// request and each completion in the order in which they happen.

package kit

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Tracer posts and waits for a job, and logs each post and each completion; at the level of -vv
// it also logs dumps of their data.
type Tracer struct{ Logger *slog.Logger }

// Quieter returns a Tracer that logs at the level of -vv what n logs without -vv. Use it for
// events that repeat often.
func (n Tracer) Quieter() Tracer {
	return Tracer{event.Relevel(n.Logger, func(level slog.Level) slog.Level {
		if level == slog.LevelInfo {
			return slog.LevelDebug
		}
		return level
	})}
}

// PostSend posts to the send queue, in one call.
func (n Tracer) PostSend(qp *verbs.QP, wrs ...verbs.SendWR) error {
	for i := range wrs {
		wr := &wrs[i]
		name := strings.TrimPrefix(wr.Opcode.String(), "IBV_WR_")
		attrs := []slog.Attr{slog.Uint64("wr_id", wr.ID), slog.Int("bytes", lengthOf(wr.SGL))}
		attrs = append(attrs, opcodeAttrs(wr)...)
		attrs = append(attrs, slog.String("flags", wr.Flags.String()))
		event.SendPosted.Log(n.Logger, "post "+name, attrs...)
		n.dumpSGL(name, wr.SGL)
		event.WRDump.LogAt(slog.LevelDebug, n.Logger, "WR:",
			append([]slog.Attr{slog.Uint64("wr_id", wr.ID), slog.String("opcode", wr.Opcode.String()), slog.String("send_flags", wr.Flags.String()),
				slog.Int("num_sge", len(wr.SGL))}, opcodeAttrs(wr)...)...)
	}
	return qp.PostSend(wrs)
}

// Do posts one request to the first queue pair's send queue and waits for its completion.
// Nothing else may wait for the send queue meanwhile.
func (n Tracer) Do(ctx context.Context, c *rc.Conn, wr verbs.SendWR, what string) (verbs.WC, error) {
	wr.Flags |= verbs.SendSignaled
	if err := n.PostSend(c.QP(), wr); err != nil {
		return verbs.WC{}, err
	}
	return n.WaitSend(ctx, c, what)
}

// opcodeAttrs returns the fields that the opcode uses.
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

// PostRecv posts to the receive queue, in one call.
func (n Tracer) PostRecv(qp *verbs.QP, wrs ...verbs.RecvWR) error {
	for i := range wrs {
		event.RecvPosted.Log(n.Logger, "post RECV", slog.Uint64("wr_id", wrs[i].ID), slog.Int("bytes", lengthOf(wrs[i].SGL)))
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

func (n Tracer) dumpSGL(name string, sgl []verbs.SGE) {
	for _, s := range sgl {
		event.SGEDump.LogAt(slog.LevelDebug, n.Logger, "SGE("+name+"):", slog.String("addr", fmt.Sprintf("%#x", s.Addr)),
			slog.Int("length", int(s.Length)), slog.String("lkey", fmt.Sprintf("%#x", s.LKey)))
	}
}

// WaitSend waits for the next completion of the send queue. It logs a failed completion
// too; what names the awaited completion in the error.
func (n Tracer) WaitSend(ctx context.Context, c *rc.Conn, what string) (verbs.WC, error) {
	wc, err := n.wait(ctx, c.WaitSend, "send")
	return wc, errors.WithMessagef(err, "waiting for %s", what)
}

// WaitRecv waits for the next completion of the receive queue; see WaitSend.
func (n Tracer) WaitRecv(ctx context.Context, c *rc.Conn, what string) (verbs.WC, error) {
	wc, err := n.wait(ctx, c.WaitRecv, "receive")
	return wc, errors.WithMessagef(n.Cause(c, err), "waiting for %s", what)
}

func (n Tracer) wait(ctx context.Context, next func(context.Context) (verbs.WC, error), queue string) (verbs.WC, error) {
	event.CompletionAwaited.LogAt(event.LevelWaits, n.Logger,
		"wait for a completion of the "+queue+" queue: poll, arm, poll again, sleep on the channel")
	wc, err := next(ctx)
	if err == nil || errors.As(err, new(*verbs.WCError)) {
		n.LogCompletion(&wc)
		Progress(ctx)
	}
	return wc, err
}

// LogCompletion logs a completion. In a failed one only the status, the request and
// the queue pair are valid.
func (n Tracer) LogCompletion(wc *verbs.WC) {
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
	event.WRCompleted.Log(n.Logger, "completion", attrs...)
	event.WCDump.LogAt(slog.LevelDebug, n.Logger, "WC:", slog.Uint64("wr_id", wc.ID),
		slog.Int("status", int(wc.Status)), slog.String("opcode", wc.Opcode.String()), slog.String("vendor_err", fmt.Sprintf("%#x", wc.VendorErr)),
		slog.Int("byte_len", int(wc.ByteLen)), slog.String("imm", fmt.Sprintf("%#x", wc.Imm())), slog.String("qp_num", fmt.Sprintf("%#06x", wc.QPN)),
		slog.String("wc_flags", wc.Flags.String()))
}

// LogText logs that a text was sent or received, in a message of the given number of bytes.
func (n Tracer) LogText(kind *event.Kind, what, text string, bytes int) {
	kind.Log(n.Logger, what, TextAttr(text), slog.Int("bytes", bytes))
}

// LogMemory logs the first bytes of a region, at the level of -vv.
func (n Tracer) LogMemory(what string, data []byte) {
	const shown = 32
	event.MemoryDump.LogAt(event.LevelWaits, n.Logger, what+":", slog.Int("bytes", len(data)),
		slog.String("first", hex.EncodeToString(data[:min(len(data), shown)])))
}
