// The story: a run in 20 to 45 lines, for a person who sees it for the first time.

package trace

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/internal/event"
)

// storyWidth is how many columns a line of a story has at most; its first column, the
// label, takes labelWidth of them.
const (
	storyWidth = 80
	labelWidth = 12
)

// How many posts and completions a story shows, and how many data events of another
// kind, before it only counts them.
const (
	maxRequests = 10
	maxOfAKind  = 8
)

// Story is a slog.Handler that writes a run as lines of at most 80 columns:
//
//	RESET→INIT  mask=0x39: receives can be posted; port 1, P_Key index 0, the
//	            peer may WRITE, READ and use atomics
//
// The label is the state transition, the verbs' own word for what happens, or the first
// part of the event's kind. Records that belong together, such as the objects made one
// after the other, share a passage, which is written when another kind of record
// follows, or by Flush. Rows of a table keep their form. The lines of a server's third
// client begin with "[3]". Records below the level Info are left out.
type Story struct {
	handler
	w      io.Writer
	colour bool

	mu       sync.Mutex
	chapters map[string]*chapter // by "who"
	err      error               // of the first Write that failed
}

// chapter is the story of one "who".
type chapter struct {
	out       *Story
	prefix    string         // of each line
	pending   passage        // the last one, if records may extend it
	seen      map[string]int // how many of an event there were; "" is posts and completions
	omitted   int            // how many of them were left out since the last line about that
	connected bool           // the line about TCP is written
	machines  []machine      // of an exchange job, which logs each message that it SENDs or receives
}

// machine is a state machine of a job and the states that it went through.
type machine struct{ name, path string }

// passage is one or more records that are printed together.
type passage struct {
	kind   string // records of the same kind extend the passage; "" if there is no passage
	events []*Event
}

// row is a line with its label, before it is wrapped.
type row struct{ label, text string }

// NewStory writes the records of level Info and above to w. Colour is for terminals.
func NewStory(w io.Writer, colour bool) *Story {
	s := &Story{w: w, colour: colour, chapters: map[string]*chapter{}}
	s.handler = handler{enabled: above(slog.LevelInfo), handle: s.add}
	return s
}

func (s *Story) add(r slog.Record, attrs []slog.Attr) error {
	e := newEvent(r.Time, "", r, attrs)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chapters[e.Who]
	if c == nil {
		c = &chapter{out: s, seen: map[string]int{}}
		if _, number, ok := strings.Cut(e.Who, "/"); ok {
			c.prefix = "[" + Printable(number) + "] "
		}
		s.chapters[e.Who] = c
	}
	c.add(&e)
	if e.Event == event.RunDone.Name() || e.Event == event.ClientFailed.Name() { // a server's client is gone
		c.flush()
		delete(s.chapters, e.Who)
	}
	if c.blank() { // the end of a stranger may not be logged
		delete(s.chapters, e.Who)
	}
	return s.err
}

// Flush writes what waits for a record that would extend it.
func (s *Story) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.chapters {
		c.flush()
	}
}

// blank reports whether a new chapter would go on in the same way.
func (c *chapter) blank() bool {
	return c.pending.kind == "" && len(c.seen) == 0 && c.omitted == 0 && !c.connected && c.machines == nil
}

// add writes a record, keeps it as a passage that others may extend, or leaves it out.
func (c *chapter) add(e *Event) {
	kind, what := c.sort(e)
	switch {
	case what == omit:
		return
	case what == flushes:
		c.flushPassage()
		return
	case kind != "" && kind == c.pending.kind:
		c.pending.events = append(c.pending.events, e)
		return
	}
	c.flushPassage()
	if e.Verb == event.QPTransition.Verb() || what == ends {
		c.flushSummary()
	}
	p := passage{kind: kind, events: []*Event{e}}
	switch {
	case kind != "":
		c.pending = p
	case c.enough(e, what) && !failed(e):
		c.omitted++
	default:
		c.write(p)
	}
}

// enough counts an event of the data path, and says whether a story has shown enough of
// its kind.
func (c *chapter) enough(e *Event, what place) bool {
	key, most := e.Event, maxOfAKind
	if what == request {
		key, most = "", maxRequests
	} else if e.Path != string(event.Data) || e.Level > slog.LevelInfo || tableLines[e.Event] {
		return false
	}
	c.seen[key]++
	return c.seen[key] > most
}

// flush writes everything that waits.
func (c *chapter) flush() {
	c.flushPassage()
	c.flushSummary()
}

func (c *chapter) flushPassage() {
	if p := c.pending; p.kind != "" {
		c.pending = passage{}
		c.write(p)
	}
}

// flushSummary writes the paths of state machines, and how many events were left out.
func (c *chapter) flushSummary() {
	for i := range c.machines {
		if m := &c.machines[i]; m.path != "" {
			c.line(row{"state", Printable(m.name + " " + m.path)}, "")
			m.path = ""
		}
	}
	if c.omitted > 0 {
		c.line(row{"…", fmt.Sprintf("%d more like these; -v shows them", c.omitted)}, "")
		c.omitted = 0
	}
}

func (c *chapter) write(p passage) {
	first := p.events[0]
	if tableLines[first.Event] {
		c.print(Printable(first.Message) + "\n")
		return
	}
	for _, r := range p.rows() {
		c.line(r, colourOf(first))
	}
}

// line writes a row, wrapped, its label in a colour.
func (c *chapter) line(r row, colour string) {
	label := columns.Fit(r.label, labelWidth-1)
	padding := strings.Repeat(" ", labelWidth-columns.Of(label))
	label = paint(label, colour, c.out.colour)
	var lines strings.Builder
	for i, text := range columns.Wrap(r.text, storyWidth-labelWidth-len(c.prefix)) {
		if i == 0 {
			lines.WriteString(c.prefix + label + padding + text + "\n")
		} else {
			lines.WriteString(c.prefix + strings.Repeat(" ", labelWidth) + text + "\n")
		}
	}
	c.print(lines.String())
}

func (c *chapter) print(text string) {
	if _, err := io.WriteString(c.out.w, text); err != nil && c.out.err == nil {
		c.out.err = err
	}
}
