// Drawing a record as a sequence diagram.

package trace

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"

	"github.com/rawverbs/rawverbs/internal/event"
)

// maxRows is how many rows a diagram has at most: a longer one is unreadable.
const maxRows = 120

// WriteDiagram draws the record in Mermaid's language, which many viewers of
// Markdown show: dashed arrows are messages over TCP, solid ones requests of the
// send queue, drawn when they are posted; notes are states, receives and
// completions. Two rows of different ends may have happened the other way round
// if their times differ by less than the clock's uncertainty.
func (rec *Record) WriteDiagram(w io.Writer) error {
	d := &diagram{out: bufio.NewWriter(w), both: rec.Client.Present && rec.Server.Present}
	fmt.Fprintln(d.out, "sequenceDiagram")
	fmt.Fprintf(d.out, "    participant client as %s\n", participant(EndClient, rec.Client))
	fmt.Fprintf(d.out, "    participant server as %s\n", participant(EndServer, rec.Server))
	for i := range rec.Events {
		d.draw(&rec.Events[i])
	}
	if d.omitted > 0 {
		d.line("Note over client,server: %d more are not drawn", d.omitted)
	}
	if rec.Error != "" {
		d.line("Note over client,server: failed: %s", plain(rec.Error))
	}
	return d.out.Flush()
}

func participant(end string, p Part) string {
	if !p.Present {
		return end + " (its part is not there)"
	}
	if p.Device != "" {
		return end + " on " + plain(p.Device)
	}
	return end
}

type diagram struct {
	out     *bufio.Writer
	both    bool // the parts of both ends are there: each message is drawn where it was sent
	rows    int
	omitted int // rows for which there is no room
}

func (d *diagram) line(format string, args ...any) {
	fmt.Fprintf(d.out, "    "+format+"\n", args...)
}

func (d *diagram) draw(e *Event) {
	row := d.row(e)
	switch {
	case row == "":
	case d.rows >= maxRows:
		d.omitted++
	default:
		d.rows++
		d.line("%s", row)
	}
}

// row returns the line of an event; "" draws nothing.
func (d *diagram) row(e *Event) string {
	peer := EndServer
	if e.End == EndServer {
		peer = EndClient
	}
	text := func(name string) string { return plain(e.Attr(name).String()) }
	switch e.Event {
	case event.TCPMessage.Name():
		what := text("message")
		if name := text("name"); name != "" {
			what += " “" + name + "”"
		}
		if e.Attr("sent").Bool() {
			return fmt.Sprintf("%s-->>%s: %s", e.End, peer, what)
		}
		if !d.both {
			return fmt.Sprintf("%s-->>%s: %s", peer, e.End, what)
		}
	case event.QPTransition.Name():
		if e.Attr("error").Kind() == slog.KindString {
			return fmt.Sprintf("Note over %s: %s refused", e.End, plain(e.Message))
		}
		return fmt.Sprintf("Note over %s: %s", e.End, plain(e.Message))
	case event.SendPosted.Name():
		what := strings.TrimPrefix(plain(e.Message), "post ")
		if e.Attr("bytes").Kind() != slog.KindAny {
			what += ", " + text("bytes") + " bytes"
		}
		if e.Verb == event.RecvPosted.Verb() {
			return fmt.Sprintf("Note over %s: post %s", e.End, what)
		}
		if e.Attr("imm").Kind() != slog.KindAny {
			what += ", immediate " + text("imm")
		}
		return fmt.Sprintf("%s->>%s: %s", e.End, peer, what)
	case event.WRCompleted.Name():
		if status := text("status"); status != "IBV_WC_SUCCESS" {
			return fmt.Sprintf("Note over %s: completion %s, %s", e.End, text("wr_id"), status)
		}
		return fmt.Sprintf("Note over %s: completion %s", e.End, strings.TrimPrefix(text("opcode"), "IBV_WC_"))
	case event.QPDrained.Name():
		if n := e.Attr("flushed"); n.Kind() == slog.KindInt64 && n.Int64() > 0 {
			return fmt.Sprintf("Note over %s: %d flushed", e.End, n.Int64())
		}
	case event.AsyncEvent.Name():
		return fmt.Sprintf("Note over %s: event %s", e.End, plain(e.Message))
	}
	return ""
}

// plain makes a text from another program safe within a row: printable, short, and
// without the characters that end a row or a text.
func plain(s string) string {
	const longest = 60
	var out strings.Builder
	for i, r := range []rune(s) {
		if i == longest {
			out.WriteString("…")
			break
		}
		switch {
		case r == '#' || r == ';' || r == '<' || r == '>' || r == '"' || r == '%':
			fmt.Fprintf(&out, "#%d;", r)
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteRune('·')
		}
	}
	return out.String()
}
