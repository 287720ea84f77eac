// What a connection tells its Logger. Each method is one kind of record.

package rc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// The paths that a record can belong to.
const (
	pathSlow = "slow" // control: the kernel takes part
	pathFast = "fast" // the setting up of data transfer
	pathInfo = "info" // a dump of what there is
)

// levelFarewell is what the messages of a farewell have.
const levelFarewell = slog.LevelDebug - 4

type events struct{ log *slog.Logger }

func (e events) emit(path, event, verb, text string, attrs ...slog.Attr) {
	head := []slog.Attr{slog.String("event", event), slog.String("verb", verb), slog.String("path", path)}
	e.log.LogAttrs(context.Background(), slog.LevelInfo, text, append(head, attrs...)...)
}

// made tells of an object made, with what is worth knowing of it. The text is a
// word for the making, then the object.
func (e events) made(path, verb, text string, attrs ...slog.Attr) {
	_, object, _ := strings.Cut(text, " ")
	e.emit(path, "object.made", verb, text, append([]slog.Attr{slog.String("object", object)}, attrs...)...)
}

// freed tells of an object destroyed.
func (e events) freed(verb, object string) {
	e.emit(pathSlow, "object.freed", verb, "free "+object, slog.String("object", object))
}

func (e events) gidChosen(entry verbs.GIDEntry, why string) {
	e.emit(pathSlow, "gid.chosen", "ibv_query_gid_table", "use GID "+entry.String(),
		slog.Int("sgid_index", entry.Index), slog.String("gid", entry.GID.String()), slog.String("why", why))
}

// transition tells of a move: the mask, its bits, and under "attr" each value;
// and at the level Debug what the queue pair is after it.
func (e events) transition(qp *verbs.QP) func(qpstate.Step) {
	qpn := qp.QPN()
	return func(s qpstate.Step) {
		var values []any
		for _, bit := range (s.Mask &^ qpstate.MaskState).Bits() {
			values = append(values, slog.String(bit.Name(), s.Attr.Value(bit)))
		}
		attrs := []slog.Attr{
			slog.String("qpn", hex24(qpn)), slog.String("type", s.Type.Name()),
			slog.String("from", s.From.Name()), slog.String("to", s.To.Name()),
			slog.String("mask", fmt.Sprintf("%#x", uint32(s.Mask))), slog.String("bits", s.Mask.Name()),
			slog.Duration("took", s.Took), slog.Group("attr", values...),
		}
		if s.Err != nil {
			attrs = append(attrs, slog.String("error", s.Err.Error()))
		}
		e.emit(pathSlow, "qp.transition", "ibv_modify_qp", s.Name(), attrs...)
		if e.log.Enabled(context.Background(), slog.LevelDebug) {
			e.dump(qp)
		}
	}
}

// dump tells all that the device says of a queue pair.
func (e events) dump(qp *verbs.QP) {
	head := []slog.Attr{slog.String("event", "qp.dump"), slog.String("verb", "ibv_query_qp"), slog.String("path", pathInfo), slog.String("qpn", hex24(qp.QPN()))}
	attr, err := qp.Query(everything)
	if err != nil {
		e.log.LogAttrs(context.Background(), slog.LevelDebug, "QP:", append(head, slog.String("error", err.Error()))...)
		return
	}
	var values []any
	for _, bit := range everything.Bits() {
		values = append(values, slog.String(bit.Name(), attr.Value(bit)))
	}
	head = append(head, slog.String("type", qp.Type().Name()), slog.Group("attr", values...))
	e.log.LogAttrs(context.Background(), slog.LevelDebug, "QP:", head...)
}

// everything is each attribute that a reliable queue pair has.
const everything = qpstate.MaskState | qpstate.MaskCurState | qpstate.MaskAccessFlags | qpstate.MaskPKeyIndex | qpstate.MaskPort |
	qpstate.MaskAV | qpstate.MaskPathMTU | qpstate.MaskTimeout | qpstate.MaskRetryCnt | qpstate.MaskRNRRetry | qpstate.MaskRQPSN |
	qpstate.MaskMaxRdAtomic | qpstate.MaskMinRNRTimer | qpstate.MaskSQPSN | qpstate.MaskMaxDestRdAtomic | qpstate.MaskDestQPN | qpstate.MaskCap

// exchanged tells of messages over TCP, by the time at which each was sent or had
// arrived. Notes behind the barrier "done" are the farewell's, about the run and
// no part of it: they have the level below Debug.
func (e events) exchanged() oob.Observer {
	var sentDone, receivedDone bool
	return func(m oob.Event) {
		text, done := "received ", &receivedDone
		if m.Sent {
			text, done = "sent ", &sentDone
		}
		text += m.Type.String()
		if m.Name != "" {
			text += fmt.Sprintf(" %q", m.Name)
		}
		level := slog.LevelInfo
		if *done && m.Type == oob.TypeNote {
			level = levelFarewell
		}
		*done = *done || m.Type == oob.TypeBarrier && m.Name == barrierDone
		if !e.log.Enabled(context.Background(), level) {
			return
		}
		r := slog.NewRecord(m.Time, level, text, 0)
		r.AddAttrs(slog.String("event", "oob.message"), slog.String("verb", "tcp"), slog.String("path", pathSlow),
			slog.Bool("sent", m.Sent), slog.String("message", m.Type.String()), slog.String("name", m.Name),
			slog.Int("bytes", m.Size), slog.String("peer", m.Peer))
		_ = e.log.Handler().Handle(context.Background(), r) // as a Logger does: it has nobody to tell
	}
}

// endpoints tells of both ends' numbers: the tuple that makes a connection.
func (e events) endpoints(local, peer oob.Endpoint) {
	e.emit(pathSlow, "peer.tuple", "tcp", "local endpoint", endpointAttrs("local", local)...)
	e.emit(pathSlow, "peer.tuple", "tcp", "remote endpoint", endpointAttrs("remote", peer)...)
}

func endpointAttrs(side string, ep oob.Endpoint) []slog.Attr {
	return []slog.Attr{
		slog.String("side", side),
		slog.String("qpn", hex24(ep.QPN)), slog.String("psn", hex24(ep.PSN)),
		slog.String("gid", verbs.GID(ep.GID).String()), slog.Int("lid", int(ep.LID)), slog.Int("mtu", ep.MTU),
		slog.Int("initiator_depth", int(ep.InitiatorDepth)), slog.Int("responder_resources", int(ep.ResponderResources)),
	}
}

func (e events) region(side string, r oob.Region) {
	e.emit(pathFast, "region.known", "tcp", side+" region "+r.Name, slog.String("side", side), slog.String("name", r.Name),
		slog.String("addr", fmt.Sprintf("%#x", r.Addr)), slog.String("rkey", fmt.Sprintf("%#x", r.RKey)), slog.Uint64("length", r.Length))
}

// async tells of an asynchronous event of the device.
func (e events) async(a verbs.AsyncEvent) {
	e.emit(pathSlow, "async.event", "ibv_get_async_event", a.String(), slog.Bool("fatal", a.Fatal()))
}

func (e events) drained(flushed int) {
	e.emit(pathSlow, "qp.drained", "ibv_poll_cq",
		fmt.Sprintf("drained: %d work requests flushed, which is normal at teardown", flushed), slog.Int("flushed", flushed))
}

// shortage tells that a listener can accept nobody for now, and why.
func (e events) shortage(cause error) {
	e.log.LogAttrs(context.Background(), slog.LevelWarn, "no new connection can be taken: the listener pauses and tries again",
		slog.String("event", "listener.short"), slog.String("verb", "tcp"), slog.String("path", pathSlow),
		slog.String("error", cause.Error()), slog.String("try", "a higher limit of open files (ulimit -n), or fewer connections at a time"))
}

func hex24(n uint32) string { return fmt.Sprintf("%#06x", n) }
