// The narration: one line per record, for a person who learns.

package trace

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/internal/event"
)

// Narration writes records as
//
//	[15:04:05.000 #0007 server] CONTROL RESET→INIT  mask=0x39 …  · ibv_modify_qp
//	              PORT=1 ACCESS_FLAGS=…
//
// The line has the time, the number in this run, and the attribute "who". Then come the
// path (WARN for a warning, ERROR for an error), what happened, its attributes and its
// verb. A group of attributes follows on its own lines. A line of a table is its text
// alone.
type Narration struct {
	handler
	w     io.Writer
	width int

	mu  sync.Mutex
	seq int
}

// NewNarration narrates the records of a level and above to w. Lines have at most width columns; 0 breaks only groups,
// so that each record has one line for other programs.
func NewNarration(w io.Writer, level slog.Level, width int) *Narration {
	n := &Narration{w: w, width: width}
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
	head := fmt.Sprintf("[%s #%04d %s] %-7s ", r.Time.Format("15:04:05.000"), n.seq, line.who, line.path)
	text := head + Printable(r.Message)
	if line.fields != "" {
		text += " " + line.fields
	}
	if line.verb != "" {
		text += "  · " + line.verb
	}
	lines := n.fit(text)
	lines = append(lines, columns.WrapFields(line.group, cmp.Or(n.width, traceWidth)-groupIndent)...)
	_, err := io.WriteString(n.w, strings.Join(lines, "\n"+strings.Repeat(" ", groupIndent))+"\n")
	return err
}

// fit breaks a line. What follows its first columns is indented, as a group is.
func (n *Narration) fit(text string) []string {
	if n.width == 0 || columns.Of(text) <= n.width {
		return []string{text}
	}
	first := columns.Wrap(text, n.width)[0]
	rest := strings.TrimLeft(text[len(first):], " ")
	return append([]string{strings.TrimRight(first, " ")}, columns.Wrap(rest, n.width-groupIndent)...)
}

// narrated is a record's attributes, sorted by where they are shown.
type narrated struct {
	who, event string
	path, verb string
	fields     string
	group      []string
}

// A group of attributes begins below the record's number. Its lines end before traceWidth
// columns if the width is not known.
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
