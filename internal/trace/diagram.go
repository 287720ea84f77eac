// Drawing a record as a sequence diagram.

package trace

import (
	"bufio"
	"fmt"
	"io"
	"strings"
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
		return end + " (its part is missing)"
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
	s := stepOf(e, d.both)
	text := escaped(s.text)
	switch s.kind {
	case noStep:
		return ""
	case tcpArrow:
		return fmt.Sprintf("%s-->>%s: %s", s.end, peerOf(s.end), text)
	case requestStep:
		return fmt.Sprintf("%s->>%s: %s", s.end, peerOf(s.end), text)
	case moveStep:
		if s.failed {
			text += " refused"
		}
	}
	return fmt.Sprintf("Note over %s: %s", s.end, text)
}

// plain makes a text from another program safe within a row.
func plain(s string) string { return escaped(short(s)) }

// escaped writes the characters that end a row or a text as Mermaid has them.
func escaped(s string) string {
	var out strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`#;<>"%`, r) {
			fmt.Fprintf(&out, "#%d;", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
