// The narration: one line per record, for a person who learns.

package trace

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/rawverbs/rawverbs/internal/columns"
	"github.com/rawverbs/rawverbs/internal/event"
)

// Narration writes records as
//
//	[15:04:05.000 #0007 server] SLOW  RESET→INIT  mask=0x39 …  · ibv_modify_qp
//	              PORT=1 ACCESS_FLAGS=…
//
// The line has the time, the number in this run, and the attribute "who". Then come the
// path (WARN for a warning, ERROR for an error), what happened, its attributes and its
// verb. A group of attributes follows on its own lines. A line of a table is its text
// alone.
type Narration struct {
	handler
	w io.Writer

	mu  sync.Mutex
	seq int
}

// NewNarration narrates the records of a level and above to w.
func NewNarration(w io.Writer, level slog.Level) *Narration {
	n := &Narration{w: w}
	n.handler = handler{enabled: above(level), handle: n.narrate}
	return n
}

// narrate writes one record.
func (n *Narration) narrate(r slog.Record, attrs []slog.Attr) error {
	line := narrated{path: "INFO"}
	for _, a := range attrs {
		line.add(a)
	}
	switch {
	case r.Level >= slog.LevelError:
		line.path = "ERROR"
	case r.Level >= slog.LevelWarn:
		line.path = "WARN"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	if tableLines[line.event] {
		_, err := io.WriteString(n.w, Printable(r.Message)+"\n")
		return err
	}
	head := fmt.Sprintf("[%s #%04d %s] %-5s ", r.Time.Format("15:04:05.000"), n.seq, line.who, line.path)
	text := head + Printable(r.Message)
	if line.fields != "" {
		text += " " + line.fields
	}
	if line.verb != "" {
		text += "  · " + line.verb
	}
	if len(line.group) > 0 {
		indent := "\n" + strings.Repeat(" ", groupIndent)
		text += indent + strings.Join(columns.WrapFields(line.group, traceWidth-groupIndent), indent)
	}
	_, err := io.WriteString(n.w, text+"\n")
	return err
}

// narrated is a record's attributes, sorted by where they are shown.
type narrated struct {
	who, event string
	path, verb string
	fields     string
	group      []string
}

// A group of attributes begins below the record's number, and its lines end before
// traceWidth columns.
const (
	groupIndent = 14
	traceWidth  = 80
)

// inText are the attributes that repeat the text, by the name of the event. They are for
// programs. The attribute "event" comes before them.
var inText = map[string][]string{
	event.ObjectMade.Name():        {"object"},
	event.ObjectFreed.Name():       {"object"},
	event.PingpongBandwidth.Name(): {"bytes", "seconds", "mbit_per_s"},
	event.PingpongLatency.Name():   {"iters", "seconds", "usec_per_iter"},
	event.TCPMessage.Name():        {"sent", "message", "name"},
	event.PeerTuple.Name():         {"side"},
	event.RegionKnown.Name():       {"side", "name"},
}

// tableLines are the events whose texts are lines of a table. The line has all that the
// attributes have.
var tableLines = map[string]bool{event.BenchHeader.Name(): true, event.BenchResult.Name(): true}

func (l *narrated) add(a slog.Attr) {
	switch {
	case a.Key == "who":
		l.who = a.Value.String()
	case a.Key == "from" || a.Key == "to": // in the text
	case a.Key == "event":
		l.event = a.Value.String()
	case slices.Contains(inText[l.event], a.Key):
	case a.Key == "path":
		l.path = strings.ToUpper(a.Value.String())
	case a.Key == "verb":
		l.verb = a.Value.String()
	case a.Value.Kind() == slog.KindGroup:
		for _, inner := range a.Value.Group() {
			l.group = append(l.group, field(inner))
		}
	default:
		l.fields += " " + field(a)
	}
}

func field(a slog.Attr) string { return a.Key + "=" + Printable(a.Value.String()) }

// Printable quotes a text that has what a terminal must not get. The text may be a
// peer's.
func Printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return strconv.Quote(s)
		}
	}
	return s
}
