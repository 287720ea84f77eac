// The ladder: both ends of a run side by side, as text of 80 columns.

package trace

import (
	"fmt"
	"io"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

// The columns of a ladder: at each side the states of an end's queue pairs, then the end's
// lifeline, and between the lifelines the arrows and what the ends do.
const (
	ladderWidth = 80
	stateWidth  = 10
	innerWidth  = ladderWidth - 2*stateWidth - 2
)

const lifeline = "│"

// maxSteps is how many posts and completions of each end a ladder draws before it only counts
// them. It draws those that fail, up to maxEndRows.
const maxSteps = 20

// maxEndRows is how many rows of one end a ladder has at most, because the peer decides how many
// events it reports.
const maxEndRows = 500

// ladder draws steps as lines, one for each:
//
//	RESET→INIT│                                                          │
//	          │-- hello ------------------------------------------------>│
//	          │══ SEND, 5 bytes ════════════════════════════════════════>│
//	          │                                         completion RECV  │
//	          │ completion RDMA_READ <══════════════════════════════════ │
//
// A step that repeats the one before at the same end is counted.
type ladder struct {
	strings.Builder
	colour bool
	ends   map[string]*ladderEnd
}

// ladderEnd is what a ladder remembers of one end.
type ladderEnd struct {
	last    step // the last one drawn
	work    int  // posts and completions
	rows    int  // that are drawn
	omitted int  // steps since the last one drawn
}

// WriteLadder draws the record as a ladder. Colour is for terminals. The error is w's.
func (rec *Record) WriteLadder(w io.Writer, colour bool) error {
	l := &ladder{colour: colour, ends: map[string]*ladderEnd{EndClient: {}, EndServer: {}}}
	l.head(participant(EndClient, rec.Client), participant(EndServer, rec.Server))
	both := rec.Client.Present && rec.Server.Present
	for i := range rec.Events {
		l.draw(stepOf(&rec.Events[i], both))
	}
	l.finish(rec.FailedEnd, rec.Error)
	_, err := io.WriteString(w, l.String())
	return err
}

func participant(end string, p Part) string {
	if !p.Present {
		return end + " (its part is missing)"
	}
	if p.Device != "" {
		return end + " on " + short(p.Device)
	}
	return end
}

// draw draws a step, or counts it.
func (l *ladder) draw(s step) {
	if s.kind == noStep {
		return
	}
	e := l.ends[s.end]
	if !s.failed {
		work := s.kind == requestStep || s.kind == workStep || s.kind == answerStep // of which there may be many
		if work {
			e.work++
		}
		if s == e.last || work && e.work > maxSteps {
			e.omitted++
			return
		}
	}
	if e.rows++; e.rows > maxEndRows {
		e.omitted++
		return
	}
	l.count(s.end)
	e.last = s
	switch s.kind {
	case tcpArrow:
		l.arrow(s, "-")
	case requestStep:
		l.arrow(s, "═")
	case moveStep:
		why := ""
		if s.failed {
			why = "refused: " + s.why
		}
		l.line(s.end, s.text, why, s.colour())
	case answerStep:
		shaft := strings.Repeat("═", max(0, innerWidth-4-columns.Of(s.text)))
		if s.end == EndClient {
			l.line(s.end, "", s.text+" <"+shaft, s.colour())
		} else {
			l.line(s.end, "", shaft+"> "+s.text, s.colour())
		}
	case workStep, noteStep:
		l.line(s.end, "", s.text, s.colour())
	}
}

// count draws how many steps of an end were not drawn since the last one.
func (l *ladder) count(end string) {
	if e := l.ends[end]; e.omitted > 0 {
		l.line(end, "", fmt.Sprintf("… %d more like these", e.omitted), "")
		e.omitted = 0
	}
}

// finish ends the ladder. why is the reason for which the run failed, "" if it succeeded, and
// end the end that failed, "" if that is not known.
func (l *ladder) finish(end, why string) {
	l.count(EndClient)
	l.count(EndServer)
	if why == "" {
		l.WriteString(paint("done", colourDone, l.colour) + "\n")
		return
	}
	text := "failed: " + oneColumnEach(Printable(why))
	if end != "" {
		l.line(end, "", "╳", colourFailed)
		text = "the " + end + " " + text
	}
	for i, line := range columns.Wrap(text, ladderWidth) {
		if i == 0 {
			line = paint(line, colourFailed, l.colour)
		}
		l.WriteString(line + "\n")
	}
}

// arrow draws a step from its end to the peer, with a shaft of one kind of line.
func (l *ladder) arrow(s step, shaft string) {
	label := " " + l.fitted(s.text, innerWidth-6) + " "
	rest := strings.Repeat(shaft, innerWidth-3-columns.Of(label))
	var arrow string
	if s.end == EndClient {
		arrow = shaft + shaft + label + rest + ">"
	} else {
		arrow = "<" + rest + label + shaft + shaft
	}
	l.WriteString(strings.Repeat(" ", stateWidth) + lifeline + paint(arrow, s.colour(), l.colour) + lifeline + "\n")
}

// line draws what happens at one end: the move of a queue pair beside the end's lifeline, a
// text on the other side of it.
func (l *ladder) line(end, state, text, colour string) {
	state = l.fitted(state, stateWidth)
	text = l.fitted(text, innerWidth-2)
	gap := func(width int, s string) string { return strings.Repeat(" ", width-columns.Of(s)) }
	state, stateGap := paint(state, colour, l.colour), gap(stateWidth, state)
	text, textGap := paint(text, colour, l.colour), gap(innerWidth-2, text)
	left, right := strings.Repeat(" ", stateWidth), ""
	inner := " " + text + textGap + " "
	if end == EndServer {
		inner = " " + textGap + text + " "
		right = state
	} else {
		left = stateGap + state
	}
	l.WriteString(left + lifeline + inner + lifeline + right + "\n")
}

// head draws the names of the ends above their lifelines.
func (l *ladder) head(client, server string) {
	client, server = l.fitted(client, ladderWidth/2-1), l.fitted(server, ladderWidth/2-1)
	left := stateWidth - min(stateWidth, columns.Of(client)/2)
	// The server's name ends as far from the right edge as the client's begins from the left.
	gap := ladderWidth - left - columns.Of(client) - columns.Of(server) - (stateWidth - min(stateWidth, columns.Of(server)/2))
	l.WriteString(strings.Repeat(" ", left) + client + strings.Repeat(" ", gap) + server + "\n")
}

// fitted cuts a text that takes more than width columns.
func (l *ladder) fitted(text string, width int) string {
	text = oneColumnEach(text)
	if columns.Of(text) <= width {
		return text
	}
	return columns.Fit(text, width-1) + "…"
}

// oneColumnEach replaces runes that take no column, so that a line of few columns has few
// runes.
func oneColumnEach(text string) string {
	return strings.Map(func(r rune) rune {
		if columns.OfRune(r) == 0 {
			return '·'
		}
		return r
	}, text)
}

// colour is that of a step's text.
func (s *step) colour() string {
	switch {
	case s.failed:
		return colourFailed
	case s.kind == moveStep:
		return colourState
	case s.kind == requestStep, s.kind == workStep, s.kind == answerStep:
		return colourData
	}
	return ""
}
