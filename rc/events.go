// The events that a connection logs. Each method logs one kind.

package rc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

type events struct {
	logger *slog.Logger // for what is no step
	steps  *slog.Logger
	silent *atomic.Bool // a call goes on that Dial does not wait for: it must not log
}

func newEvents(logger *slog.Logger) events {
	return events{logger, event.Steps(logger), new(atomic.Bool)}
}

// log returns the Logger of the steps.
func (e events) log() *slog.Logger { return e.unlessSilent(e.steps) }

func (e events) unlessSilent(logger *slog.Logger) *slog.Logger {
	if e.silent.Load() {
		return slog.New(slog.DiscardHandler)
	}
	return logger
}

// secret is a key or an address that with others opens memory to the peer. Who may read the log may not have it.
func (e events) secret(name string, value uint64) slog.Attr {
	if !e.log().Enabled(context.Background(), event.LevelKeys) {
		return slog.String(name, "redacted")
	}
	return slog.String(name, fmt.Sprintf("%#x", value))
}

// made logs an object that the verb has made. The text is a verb and the object: "make queue pair".
func (e events) made(verb, text string, attrs ...slog.Attr) {
	e.object(event.ObjectMade.By(verb), text, attrs)
}

// registered logs a memory region; see made.
func (e events) registered(text string, attrs ...slog.Attr) {
	e.object(&event.RegionMade, text, attrs)
}

func (e events) object(kind *event.Kind, text string, attrs []slog.Attr) {
	_, object, _ := strings.Cut(text, " ")
	kind.Log(e.log(), text, append([]slog.Attr{slog.String("object", object)}, attrs...)...)
}

// freed logs an object that the verb has destroyed.
func (e events) freed(verb, object string) {
	event.ObjectFreed.By(verb).Log(e.log(), "free "+object, slog.String("object", object))
}

func (e events) gidChosen(entry verbs.GIDEntry, why string) {
	event.GIDChosen.Log(e.log(), "use GID "+entry.String(),
		slog.Int("sgid_index", entry.Index), slog.String("gid", entry.GID.String()), slog.String("why", why))
}

// transition logs a move: the mask, its bits, and under "attr" each value. If dumps are
// logged, it also logs the queue pair's attributes after the move.
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
		event.QPTransition.Log(e.log(), s.Name(), attrs...)
		if e.log().Enabled(context.Background(), slog.LevelDebug) {
			e.dump(qp)
		}
	}
}

// dump logs all attributes of a queue pair.
func (e events) dump(qp *verbs.QP) {
	head := []slog.Attr{slog.String("qpn", hex24(qp.QPN()))}
	attr, err := qp.Query(everything)
	if err != nil {
		event.QPDump.LogAt(slog.LevelDebug, e.log(), "QP:", append(head, slog.String("error", err.Error()))...)
		return
	}
	var values []any
	for _, bit := range everything.Bits() {
		values = append(values, slog.String(bit.Name(), attr.Value(bit)))
	}
	head = append(head, slog.String("type", qp.Type().Name()), slog.Group("attr", values...))
	event.QPDump.LogAt(slog.LevelDebug, e.log(), "QP:", head...)
}

// everything selects all attributes of an RC queue pair.
const everything = qpstate.MaskState | qpstate.MaskCurState | qpstate.MaskAccessFlags | qpstate.MaskPKeyIndex | qpstate.MaskPort |
	qpstate.MaskAV | qpstate.MaskPathMTU | qpstate.MaskTimeout | qpstate.MaskRetryCnt | qpstate.MaskRNRRetry | qpstate.MaskRQPSN |
	qpstate.MaskMaxRdAtomic | qpstate.MaskMinRNRTimer | qpstate.MaskSQPSN | qpstate.MaskMaxDestRdAtomic | qpstate.MaskDestQPN | qpstate.MaskCap

// endpoints logs the numbers of both ends that make a connection.
func (e events) endpoints(local, peer oob.Endpoint) {
	event.PeerTuple.Log(e.log(), "local endpoint", endpointAttrs("local", local)...)
	event.PeerTuple.Log(e.log(), "remote endpoint", endpointAttrs("remote", peer)...)
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
	event.RegionKnown.Log(e.log(), side+" region "+r.Name, slog.String("side", side), slog.String("name", r.Name),
		e.secret("addr", r.Addr), e.secret("rkey", uint64(r.RKey)), slog.Uint64("length", r.Length))
}

// async logs an asynchronous event of the device.
func (e events) async(a verbs.AsyncEvent) {
	event.AsyncEvent.Log(e.unlessSilent(e.logger), a.String(), slog.Bool("fatal", a.Fatal()))
}

func (e events) drained(flushed int) {
	event.QPDrained.Log(e.log(),
		fmt.Sprintf("drained: %d work requests flushed", flushed), slog.Int("flushed", flushed))
}

// shortage logs that a listener cannot accept connections for now.
func (e events) shortage(cause error) {
	event.ListenerShort.LogAt(slog.LevelWarn, e.logger, "cannot accept a connection: the listener pauses and tries again",
		slog.String("error", cause.Error()), slog.String("try", "raise the limit of open files (ulimit -n), or make fewer connections at a time"))
}

// clientFailed logs that a server's client failed.
func (e events) clientFailed(peer net.Addr, err error, attrs ...slog.Attr) {
	event.ClientFailed.LogAt(slog.LevelError, e.logger, "client failed",
		append([]slog.Attr{slog.String("peer", peer.String()), slog.String("error", err.Error())}, attrs...)...)
}

func hex24(n uint32) string { return fmt.Sprintf("%#06x", n) }
