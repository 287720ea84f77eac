// The log of a session: events in the form of docs/record.md, with the virtual clock's times. Two
// names are added: "n", the event's number, and "action", the number of the action.

package workbench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// Event is an event of the record.
type Event struct {
	N       int    `json:"n"`
	Action  int    `json:"action"`
	Time    string `json:"time"`
	Level   string `json:"level"`
	Message string `json:"msg"`
	End     string `json:"end"`
	Who     string `json:"who"`
	Event   string `json:"event"`
	Verb    string `json:"verb,omitempty"`
	Path    string `json:"path,omitempty"`
	Attrs   attrs  `json:"attrs,omitempty"`
}

// attrs are an event's own attributes, in the order of logging.
type attrs []slog.Attr

// MarshalJSON implements json.Marshaler.
func (list attrs) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, a := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(a.Key)
		if err != nil {
			return nil, err
		}
		value := a.Value.Any()
		if a.Value.Kind() == slog.KindGroup {
			value = attrs(a.Value.Group())
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// began is the time 0 of each session on the record's clock.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const recordTime = "2006-01-02T15:04:05.000000000Z"

// note logs an event of the action that is being carried out.
func (h *host) note(k *event.Kind, text string, own ...slog.Attr) {
	h.noteAt(h.s.world.Now(), k, text, own)
}

func (h *host) noteAt(at time.Duration, k *event.Kind, text string, own []slog.Attr) {
	s := h.s
	s.log = append(s.log, Event{N: len(s.log), Action: len(s.actions), Time: began.Add(at).Format(recordTime), Level: "INFO", Message: text,
		End: h.side.String(), Who: h.side.String(), Event: k.Name(), Verb: k.Verb(), Path: string(k.Path()), Attrs: own})
}

func hexText[T ~uint32 | ~uint64](n T) string { return fmt.Sprintf("%#x", uint64(n)) }

func (h *host) made(o *object, verb string) {
	title := o.kind + " " + o.name
	object := slog.String("object", title)
	switch o.kind {
	case "MR":
		h.note(&event.RegionMade, "register "+title, object, slog.String("addr", hexText(o.mr.Addr())), slog.Int("length", o.mr.Len()),
			slog.String("lkey", hexText(o.mr.LKey())), slog.String("rkey", hexText(o.mr.RKey())), slog.String("access", o.mr.Access().Name()))
		return
	case "CQ":
		h.note(event.ObjectMade.By(verb), "make "+title, object, slog.Int("depth", o.cq.Depth()))
		return
	case "QP":
		h.note(event.ObjectMade.By(verb), "make "+title, object, slog.String("qpn", hex24(o.qp.QPN())), slog.String("type", o.qp.Type().Name()),
			slog.String("state", qpstate.Reset.Name()), slog.String("cap", fmt.Sprintf("%+v", o.qp.Cap())))
		return
	}
	h.note(event.ObjectMade.By(verb), "make "+title, object)
}

// freed logs that an object was freed, or that the device refused it.
func (h *host) freed(o *object, refused *Refusal) {
	title := o.kind + " " + o.name
	h.note(event.ObjectFreed.By(o.verb), "free "+title, withError([]slog.Attr{slog.String("object", title)}, refused)...)
}

// moved logs a modify_qp, refused or not.
func (h *host) moved(o *object, from qpstate.State, a *qpstate.Attr, mask qpstate.Mask, err error) {
	to := from
	if mask&qpstate.MaskState != 0 {
		to = a.State
	}
	var values []any
	for _, bit := range (mask &^ qpstate.MaskState).Bits() {
		values = append(values, slog.String(bit.Name(), a.Value(bit)))
	}
	list := []slog.Attr{slog.String("qpn", hex24(o.qp.QPN())), slog.String("type", o.qp.Type().Name()), slog.String("from", from.Name()), slog.String("to", to.Name()),
		slog.String("mask", hexText(mask)), slog.String("bits", mask.Name()), slog.Int64("took_ns", 0), slog.Group("attr", values...)}
	if err != nil {
		list = append(list, slog.String("error", err.Error()))
	}
	h.note(&event.QPTransition, from.Name()+"→"+to.Name(), list...)
}

func (h *host) queried(o *object, a *qpstate.Attr) {
	var values []any
	for _, bit := range applies[o.qp.Type()] {
		values = append(values, slog.String(bit.Name(), a.Value(bit)))
	}
	h.note(&event.QPDump, "QP:", slog.String("qpn", hex24(o.qp.QPN())), slog.String("type", o.qp.Type().Name()), slog.Group("attr", values...))
}

func bytesOf(sgl []verbs.SGE) (n int) {
	for _, s := range sgl {
		n += int(s.Length)
	}
	return n
}

// posted logs a request that was posted, or refused.
func (h *host) posted(o *object, wr *verbs.SendWR, refused *Refusal) {
	name := opcodeName(wr.Opcode)
	list := []slog.Attr{slog.Uint64("wr_id", wr.ID), slog.Int("bytes", bytesOf(wr.SGL)), slog.String("flags", wr.Flags.String())}
	if wr.RKey != 0 || wr.RemoteAddr != 0 {
		list = append(list, slog.String("remote_addr", hexText(wr.RemoteAddr)), slog.String("rkey", hexText(wr.RKey)))
	}
	switch wr.Opcode {
	case verbs.OpSendWithImm, verbs.OpRDMAWriteWithImm:
		list = append(list, slog.Int64("imm", int64(wr.Imm)))
	case verbs.OpAtomicFetchAndAdd:
		list = append(list, slog.Uint64("add", wr.CompareAdd))
	case verbs.OpAtomicCmpAndSwp:
		list = append(list, slog.Uint64("compare", wr.CompareAdd), slog.Uint64("swap", wr.Swap))
	}
	h.note(&event.SendPosted, "post "+name, withError(append(list, slog.String("qpn", hex24(o.qp.QPN()))), refused)...)
}

func (h *host) postedRecv(o *object, wr *verbs.RecvWR, refused *Refusal) {
	list := []slog.Attr{slog.Uint64("wr_id", wr.ID), slog.Int("bytes", bytesOf(wr.SGL))}
	if o.qp != nil {
		list = append(list, slog.String("qpn", hex24(o.qp.QPN())))
	}
	h.note(&event.RecvPosted, "post RECV", withError(list, refused)...)
}

func withError(list []slog.Attr, refused *Refusal) []slog.Attr {
	if refused == nil {
		return list
	}
	return append(list, slog.String("error", refused.Text))
}

func (h *host) completed(wc *verbs.WC) {
	list := []slog.Attr{slog.Uint64("wr_id", wc.ID), slog.String("status", wc.Status.String())}
	if wc.Status == verbs.WCSuccess {
		list = append(list, slog.String("opcode", wc.Opcode.String()))
		if wc.ByteLen != 0 {
			list = append(list, slog.Int("byte_len", int(wc.ByteLen)))
		}
		if wc.Flags&verbs.WCWithImm != 0 {
			list = append(list, slog.Int64("imm", int64(wc.Imm())))
		}
	}
	h.note(&event.WRCompleted, "completion", append(list, slog.String("qpn", hex24(wc.QPN)))...)
}

// armed logs that the program will wait for a completion.
func (h *host) armed(o *object) {
	h.note(&event.CompletionAwaited, "arm CQ "+o.name)
}

// toldEndpoint logs the message with an endpoint at both ends.
func (h *host) toldEndpoint(t told) {
	h.message("endpoints", t.Name)
	h.endpoint("local", t)
	h.s.hosts[h.side.Peer()].endpoint("remote", t)
}

func (h *host) endpoint(side string, t told) {
	h.note(&event.PeerTuple, side+" endpoint", slog.String("side", side), slog.String("qpn", hex24(t.QPN)), slog.String("psn", hex24(t.PSN)),
		slog.String("gid", t.GID.String()), slog.Int("lid", 0), slog.Int("mtu", t.MTU.Bytes()), slog.Int("initiator_depth", 0), slog.Int("responder_resources", 0))
}

func (h *host) toldRegion(r region) {
	h.message("regions", r.Name)
	h.known("local", r)
	h.s.hosts[h.side.Peer()].known("remote", r)
}

func (h *host) known(side string, r region) {
	h.note(&event.RegionKnown, side+" region "+r.Name, slog.String("side", side), slog.String("name", r.Name),
		slog.String("addr", hexText(r.Addr)), slog.String("rkey", hexText(r.RKey)), slog.Int("length", r.Length))
}

// message logs a message over TCP, sent here and received there.
func (h *host) message(kind, name string) {
	peer := h.s.hosts[h.side.Peer()]
	for _, m := range []struct {
		at   *host
		sent bool
		text string
	}{{h, true, "sent "}, {peer, false, "received "}} {
		m.at.note(&event.TCPMessage, m.text+kind, slog.Bool("sent", m.sent), slog.String("message", kind), slog.String("name", name),
			slog.Int("bytes", 0), slog.String("peer", m.at.side.Peer().String()))
	}
}

// collectEvents logs what the devices reported by themselves.
func (s *Session) collectEvents() {
	action := len(s.actions) - 1 // it is in the list already
	for _, e := range s.world.TakeEvents() {
		h, from := s.hosts[e.Host], len(s.log)
		switch {
		case e.Completion:
			cq := h.cqOf(e.Async)
			cq.events++
			h.noteAt(e.At, &event.CompletionEvent, "completion event of "+cq.name, []slog.Attr{slog.String("object", "CQ "+cq.name)})
		case e.From != e.To:
			o := h.qpOf(e.QPN)
			h.noteAt(e.At, &event.QPMoved, e.From.Name()+"→"+e.To.Name(), []slog.Attr{slog.String("qpn", hex24(e.QPN)), slog.String("type", o.qp.Type().Name()), slog.String("from", e.From.Name()), slog.String("to", e.To.Name())})
		default:
			h.noteAt(e.At, &event.AsyncEvent, h.asyncText(e.Async), []slog.Attr{slog.Bool("fatal", e.Async.Fatal())})
		}
		for i := from; i < len(s.log); i++ {
			s.log[i].Action = action
		}
	}
}

// cqOf returns the CQ of a completion event. It is open: only a CQ with queue pairs gets completions.
func (h *host) cqOf(e verbs.AsyncEvent) *object {
	for o := range h.open("CQ") {
		if o.cq.Is(e) {
			return o
		}
	}
	return nil
}

// asyncText names the event and its object.
func (h *host) asyncText(e verbs.AsyncEvent) string {
	text := e.Type.String()
	switch {
	case e.QPN != 0:
		if o := h.qpOf(e.QPN); o != nil {
			return text + " on QP " + o.name
		}
	default:
		for o := range h.open("CQ") {
			if o.cq.Is(e) {
				return text + " on CQ " + o.name
			}
		}
		for o := range h.open("SRQ") {
			if o.srq.Is(e) {
				return text + " on SRQ " + o.name
			}
		}
	}
	return text
}

// header is the first line of a record.
type header struct {
	Schema  string `json:"schema"`
	Version int    `json:"version"`
	Job     string `json:"job"`
	Done    bool   `json:"done"`
	Client  part   `json:"client"`
	Server  part   `json:"server"`
	Clock   struct {
		Reference   string `json:"reference"`
		Method      string `json:"method"`
		Rounds      int    `json:"rounds"`
		Offset      int    `json:"offset_ns"`
		Uncertainty int    `json:"uncertainty_ns"`
	} `json:"clock"`
}

// part is what the header says of one end.
type part struct {
	Present bool   `json:"present"`
	Program string `json:"program"`
	Host    string `json:"host"`
	Device  string `json:"device"`
	Events  int    `json:"events"`
	Dropped int    `json:"dropped"`
}

// Record returns the events as a file of docs/record.md. Both ends share one clock.
func (s *Session) Record() (string, error) {
	h := header{Schema: "rawverbs-record", Version: 1, Job: "laboratory", Done: true}
	h.Clock.Reference, h.Clock.Rounds, h.Clock.Method = "client", 1, "both ends are simulated and share one clock"
	parts := map[string]*part{"client": &h.Client, "server": &h.Server}
	for name, p := range parts {
		*p = part{Present: true, Program: "laboratory", Host: name, Device: simulated.DeviceName}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range s.log {
		parts[s.log[i].End].Events++
	}
	if err := enc.Encode(h); err != nil {
		return "", err
	}
	for i := range s.log {
		if err := enc.Encode(&s.log[i]); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}
