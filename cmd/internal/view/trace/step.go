// What the ladder draws of an event.

package trace

import (
	"log/slog"
	"strings"
	"unicode"

	"github.com/rawverbs/rawverbs/internal/event"
)

// step is what the ladder draws of one event. Its text is printable and short.
type step struct {
	kind   stepKind
	end    string // where it happened, or where an arrow begins
	text   string
	failed bool
	why    string // why a move was refused
}

type stepKind int

const (
	noStep      stepKind = iota // nothing is drawn
	tcpArrow                    // a message over TCP
	requestStep                 // an arrow: a request of the send queue, when it is posted
	moveStep                    // a move of a queue pair to another state
	workStep                    // a posted receive, or a completion
	answerStep                  // an arrow back: a completion for which the peer has sent data
	noteStep                    // anything else
)

// OtherEnd returns the other end.
func OtherEnd(end string) string {
	if end == EndServer {
		return EndClient
	}
	return EndServer
}

// stepOf returns what is drawn of an event. If the events of both ends are known, an
// arrow of TCP is drawn where the message was sent, otherwise also where it was received.
func stepOf(e *Event, both bool) step {
	text := func(name string) string { return short(e.text(name)) }
	switch e.Event {
	case event.TCPMessage.Name():
		if e.Attr("sent").Kind() != slog.KindBool { // a record may be of any origin
			return step{}
		}
		s := step{kind: tcpArrow, end: e.End, text: text("message"), failed: text("message") == "error"}
		if name := text("name"); name != "" {
			s.text += " “" + name + "”"
		}
		if e.sent() {
			return s
		}
		if s.end = OtherEnd(e.End); !both {
			return s
		}
	case event.QPTransition.Name():
		s := step{kind: moveStep, end: e.End, text: short(e.Message)}
		if why := e.Attr("error"); why.Kind() == slog.KindString {
			s.failed, s.why = true, short(why.String())
		}
		return s
	case event.SendPosted.Name():
		s := step{kind: requestStep, end: e.End, text: strings.TrimPrefix(short(e.Message), "post ")}
		if e.Attr("bytes").Kind() != slog.KindAny {
			s.text += ", " + text("bytes") + " bytes"
		}
		if e.Verb == event.RecvPosted.Verb() {
			s.kind, s.text = workStep, "post "+s.text
		} else if e.Attr("imm").Kind() != slog.KindAny {
			s.text += ", immediate " + text("imm")
		}
		return s
	case event.WRCompleted.Name():
		if status := text("status"); status != "IBV_WC_SUCCESS" {
			return step{kind: workStep, end: e.End, text: "completion " + text("wr_id") + ", " + status, failed: true}
		}
		s := step{kind: workStep, end: e.End, text: "completion " + strings.TrimPrefix(text("opcode"), "IBV_WC_")}
		switch text("opcode") {
		case "IBV_WC_RDMA_READ", "IBV_WC_COMP_SWAP", "IBV_WC_FETCH_ADD":
			s.kind = answerStep
		}
		return s
	case event.QPDrained.Name():
		if n := e.Attr("flushed"); n.Kind() == slog.KindInt64 && n.Int64() > 0 {
			return step{kind: noteStep, end: e.End, text: n.String() + " flushed"}
		}
	case event.RecordGap.Name():
		return step{kind: noteStep, end: e.End, text: "… " + text("dropped") + " events are left out"}
	case event.AsyncEvent.Name():
		return step{kind: noteStep, end: e.End, text: "event " + short(e.Message)}
	}
	return step{}
}

// short makes a text from another program fit for a row: printable, and not too long.
func short(s string) string {
	const longest = 60
	runes := []rune(s)
	if len(runes) > longest {
		runes = append(runes[:longest:longest], '…')
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '·'
		}
	}
	return string(runes)
}
