// What a story says of each kind of event: what is left out, what belongs together,
// and the words.

package trace

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/internal/event"
)

// place is what a record does to the story.
type place int

const (
	shown   place = iota // it has its lines
	omit                 // it is left out
	flushes              // it is left out, and what came before is complete
	request              // it is a post or a completion, of which there may be many
	ends                 // it is shown, and no posts or completions follow
)

// sort says what to do with a record, and which records may share its passage.
func (c *chapter) sort(e *Event) (kind string, what place) {
	switch e.Event {
	case event.TCPMessage.Name():
		return c.sortMessage(e)
	case event.RegionKnown.Name():
		if e.text("side") == "local" { // the line of its registration has the numbers
			return "", omit
		}
	case event.AsyncEvent.Name():
		if strings.HasPrefix(e.Message, "IBV_EVENT_QP_LAST_WQE_REACHED") {
			return "", omit // one for each queue pair with a shared receive queue, whenever it goes to ERR
		}
	case event.DeviceOpened.Name(), event.PortQueried.Name():
		return "device", shown
	case event.ObjectMade.Name():
		if e.Verb != event.RegionMade.Verb() {
			return "made", shown
		}
	case event.ObjectFreed.Name():
		return "freed", ends
	case event.PeerTuple.Name():
		return "endpoints", shown
	case event.QPTransition.Name():
		if e.text("error") == "" {
			return "transition " + e.Message + e.text("mask") + e.text("type"), shown
		}
	case event.QPDrained.Name():
		if strings.HasPrefix(c.pending.kind, "transition ") {
			return c.pending.kind, ends
		}
	case event.StatesBegin.Name():
		c.machines = []machine{{name: "send"}, {name: "receive"}}
		return "", omit
	case event.StateChanged.Name():
		c.moveMachine(e)
		return "", omit
	case event.SendPosted.Name():
		if c.hasOwnLine(e) {
			return "", omit
		}
		if e.Verb == event.RecvPosted.Verb() {
			return "recv " + e.Message + e.text("bytes"), request
		}
		return "", request
	case event.WRCompleted.Name():
		if c.hasOwnLine(e) {
			return "", omit
		}
		return "", request
	case event.RunAgain.Name(), event.RunDone.Name(), event.RunFailed.Name(), event.ClientFailed.Name():
		return "", ends
	}
	return "", shown
}

// hasOwnLine says whether a SEND or a receive has a line of another kind: an exchange job
// logs each message by its name. A failure is always shown.
func (c *chapter) hasOwnLine(e *Event) bool {
	if c.machines == nil || failed(e) {
		return false
	}
	switch e.text("opcode") {
	case "IBV_WC_SEND", "IBV_WC_RECV":
		return true
	}
	return e.Message == "post SEND"
}

// moveMachine adds a state to the path of the machine that has moved.
func (c *chapter) moveMachine(e *Event) {
	for i := range c.machines {
		if m := &c.machines[i]; m.name == e.text("machine") {
			if m.path == "" {
				m.path = e.text("from")
			}
			m.path += "→" + e.text("to")
		}
	}
}

// sortMessage leaves out messages over TCP, except errors and a client's first message, which shows
// that the client is connected.
func (c *chapter) sortMessage(e *Event) (kind string, what place) {
	first := !c.connected && e.Who == EndClient
	c.connected = c.connected || first
	switch {
	case first, e.text("message") == "error":
		return "", shown
	case e.sent():
		return "", flushes
	}
	return "", omit // it may come between two records of one passage
}

// phrase is how a story shows an event: its label, a beginning of its message that the label
// says, and the attributes that a story leaves out. "*" stands for all.
type phrase struct {
	label, cut string
	hide       []string
}

// phrases are those of the events whose kind does not say it.
var phrases = map[string]phrase{
	event.AsyncEvent.Name():            {"event", "", []string{"fatal"}},
	event.BulkDone.Name():              {"bulk", "", []string{"mib_per_s", "stalls"}},
	event.CertificateExpires.Name():    {"TLS", "", []string{"until"}},
	event.CertificateRead.Name():       {"TLS", "", nil},
	event.ClientAccepted.Name():        {"accept", "", nil},
	event.ClientFailed.Name():          {"failed", "client failed", []string{"job", "outcome", "bytes", "seconds"}},
	event.DeviceQueried.Name():         {"query", "", nil},
	event.GIDChosen.Name():             {"use", "use ", []string{"*"}},
	event.JobChosen.Name():             {"job", "", nil},
	event.LabExplained.Name():          {"note", "", nil},
	event.LeaveEarly.Name():            {"note", "", nil},
	event.MetricsServed.Name():         {"metrics", "metrics ", []string{"address"}},
	event.OperationsOmitted.Name():     {"…", "", nil},
	event.PeerDisconnected.Name():      {"TCP", "", nil},
	event.QPDrained.Name():             {"flush", "drained: ", []string{"*"}},
	event.QPTransition.Name():          {"refused", "", []string{"took", "bits", "attr"}},
	event.RegionKnown.Name():           {"region", "", []string{"length"}},
	event.RunAgain.Name():              {"again", "", []string{"attempt", "left"}},
	event.RunDone.Name():               {"done", "done: ", []string{"*"}},
	event.PageServed.Name():            {"page", "", []string{"address", "open"}},
	event.ServerListening.Name():       {"listen", "listening ", []string{"address", "program", "max_memory", "max_memory_from"}},
	event.ServerUnauthenticated.Name(): {"open", "", []string{"address"}},
	event.SumChecked.Name():            {"sum", "", []string{"*"}},
	event.TextRead.Name():              {"message", "", nil},
	event.TextWritten.Name():           {"message", "", nil},
	event.CompletionAwaited.Name():     {"wait", "wait ", nil},
	event.WRCompleted.Name():           {"complete", "", nil},
	event.SendPosted.Name():            {"post", "post ", []string{"flags"}},
}

// attrWords are the attributes that a story does not show as name=value.
var attrWords = map[string]string{
	"because": "because %s", "so": "so %s", "bytes": "%s bytes", "byte_len": "%s bytes", "length": "%s bytes",
	"omitted": "%s failures before it are not shown", "operations": "%s operations", "peer": "peer %s", "status": "%s",
}

// phraseOf is the phrase of an event: the label of one without a row is the first part
// of its kind.
func phraseOf(e *Event) phrase {
	p, ok := phrases[e.Event]
	if !ok {
		p.label, _, _ = strings.Cut(e.Event, ".")
		p.label = Printable(p.label)
		p.cut = p.label + " "
	}
	switch {
	case e.Level >= slog.LevelError:
		p.label = "failed"
	case e.Level >= slog.LevelWarn:
		p.label, p.cut = "warning", ""
	}
	return p
}

// The colours of labels, as ANSI has them.
const (
	colourState   = "1;36"
	colourData    = "32"
	colourDone    = "1;32"
	colourFailed  = "1;31"
	colourWarning = "1;33"
)

// paint puts a text into a colour, if colours are on; "" is the terminal's own.
func paint(text, colour string, on bool) string {
	if !on || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// colourOf is the colour of an event's label; "" is the terminal's own.
func colourOf(e *Event) string {
	switch {
	case failed(e):
		return colourFailed
	case e.Level >= slog.LevelWarn:
		return colourWarning
	case e.Event == event.QPTransition.Name():
		return colourState
	case e.Event == event.RunDone.Name():
		return colourDone
	case e.Path == string(event.Data):
		return colourData
	}
	return ""
}

// failed says whether an event is a failure.
func failed(e *Event) bool {
	status := e.text("status")
	return e.Level >= slog.LevelError || e.text("error") != "" || status != "" && status != "IBV_WC_SUCCESS"
}

func (p *passage) rows() []row {
	first := p.events[0]
	switch kind, _, _ := strings.Cut(p.kind, " "); kind {
	case "device":
		return p.device()
	case "made":
		return []row{p.made()}
	case "freed":
		return []row{{"free", fmt.Sprintf("%d objects, the last made first", len(p.events))}}
	case "endpoints":
		return p.endpoints()
	case "transition":
		return []row{p.transition()}
	case "recv":
		return []row{p.receives()}
	}
	switch first.Event {
	case event.TCPMessage.Name():
		return []row{message(first)}
	case event.ObjectMade.Name():
		return []row{registered(first)}
	case event.WRCompleted.Name():
		return []row{{"complete", completed(first)}}
	}
	return []row{first.row()}
}

// text returns an attribute as text, or "" if the event does not have it.
func (e *Event) text(name string) string {
	v := e.Attr(name)
	if v.Kind() == slog.KindAny {
		return ""
	}
	return v.String()
}

// sent reports whether this end sent the message of the event.
func (e *Event) sent() bool { return e.Attr("sent").Equal(slog.BoolValue(true)) }

// row is an event in its own words: its message, a text in quotation marks, and the
// other attributes in brackets.
func (e *Event) row() row {
	p := phraseOf(e)
	text := Printable(strings.TrimPrefix(e.Message, p.cut))
	if v := e.Attr("text"); v.Kind() != slog.KindAny {
		text += ": " + quoted(v.String())
	}
	if why := e.text("error"); why != "" {
		text = strings.TrimPrefix(text+": "+Printable(why), ": ")
	}
	hide := append(slices.Clip(p.hide), inText[e.Event]...)
	if rest := attrText(e.Attrs, append(hide, "text", "error", "from", "to")); rest != "" {
		text += " (" + rest + ")"
	}
	return row{p.label, text}
}

// attrText returns the attributes that are not in hide, in the words of attrWords.
func attrText(attrs []slog.Attr, hide []string) string {
	if slices.Contains(hide, "*") {
		return ""
	}
	var parts []string
	for _, a := range attrs {
		words, ok := attrWords[a.Key]
		switch {
		case slices.Contains(hide, a.Key), a.Value.String() == "false", a.Value.String() == "0s": // what is not so
		case a.Value.Kind() == slog.KindGroup:
			if inner := attrText(a.Value.Group(), nil); inner != "" {
				parts = append(parts, inner)
			}
		case ok:
			parts = append(parts, fmt.Sprintf(words, Printable(a.Value.String())))
		default:
			parts = append(parts, Printable(a.Key)+"="+Printable(a.Value.String()))
		}
	}
	return strings.Join(parts, ", ")
}

// maxQuoted is how many columns of a text a story shows.
const maxQuoted = 160

// quoted is the beginning of a text, in quotation marks.
func quoted(text string) string {
	if start := columns.Fit(text, maxQuoted); len(start) < len(text) {
		return strconv.Quote(start) + "…"
	}
	return strconv.Quote(text)
}

// message is the line of a message over TCP.
func message(e *Event) row {
	peer := Printable(e.text("peer"))
	switch {
	case e.text("message") != "error":
		return row{"TCP", "connected to " + peer}
	case e.sent():
		return row{"TCP", "the failure is sent to the peer"}
	}
	return row{"TCP", "the peer says that it failed, at the step " + quoted(e.text("name"))}
}

// device is the line of the device and its port.
func (p *passage) device() []row {
	var parts []string
	for _, e := range p.events {
		text := strings.TrimPrefix(e.Message, "open ")
		switch e.Event {
		case event.DeviceOpened.Name():
			text += ", " + e.text("why")
		case event.PortQueried.Name():
			text += " " + e.text("state") + ", MTU " + e.text("active_mtu")
		}
		parts = append(parts, Printable(text))
	}
	return []row{{"open", strings.Join(parts, "; ")}}
}

// made lists the objects that were made, those of one kind as one entry.
func (p *passage) made() row {
	var kinds []string
	count := map[string]int{}
	last := map[string]*Event{}
	for _, e := range p.events {
		name := cmp.Or(objectKinds[e.Verb], e.text("object"))
		if count[name]++; count[name] == 1 {
			kinds = append(kinds, name)
		}
		last[name] = e
	}
	var list []string
	for _, name := range kinds {
		e := last[name]
		if count[name] > 1 {
			name = fmt.Sprintf("%d %ss", count[name], name)
		} else if qpn := e.text("qpn"); qpn != "" {
			name += " " + qpn
		}
		if t := e.text("type"); t != "" {
			name += " (" + t + ", " + e.text("state") + ")"
		}
		list = append(list, Printable(name))
	}
	return row{"make", strings.Join(list, ", ")}
}

// registered is the line of a memory region.
func registered(e *Event) row {
	hide := []string{"object", "name", "addr", "access"}
	if e.text("rkey") == "0x0" {
		hide = append(hide, "rkey")
	} else {
		hide = append(hide, "lkey")
	}
	text := Printable(strings.TrimPrefix(e.Message, "register ")) + " (" + attrText(e.Attrs, hide)
	if access := accessWords(e.text("access")); access != noAccess {
		text += ", " + access
	}
	return row{"register", text + ")"}
}

// maxPairs is how many pairs of endpoints a story shows.
const maxPairs = 2

// endpoints is a table of both ends' numbers.
func (p *passage) endpoints() []row {
	rows := []row{{"endpoint", "QPN       PSN       GID"}}
	shown := p.events
	if len(shown) > 2*maxPairs {
		shown = shown[:2*maxPairs]
	}
	for _, e := range shown {
		text := fmt.Sprintf("%-8s  %-8s  %s", e.text("qpn"), e.text("psn"), e.text("gid"))
		if lid := e.text("lid"); lid != "0" {
			text += "  LID " + lid
		}
		rows = append(rows, row{"  " + e.text("side"), Printable(text)})
	}
	if more := len(p.events)/2 - maxPairs; more > 0 {
		rows = append(rows, row{"", fmt.Sprintf("and %d more pairs; -v shows them", more)})
	}
	return rows
}

// transition is the line of a transition, of one queue pair or several.
func (p *passage) transition() row {
	first := p.events[0]
	values := first.Attr("attr")
	differ := map[string]bool{}
	moved := 0
	var drained string
	for _, e := range p.events {
		if e.Event == event.QPDrained.Name() {
			drained = ": " + e.text("flushed") + " of them"
			continue
		}
		moved++
		if values.Kind() != slog.KindGroup {
			continue
		}
		for _, a := range values.Group() {
			if e.Attr("attr", a.Key).String() != a.Value.String() {
				differ[a.Key] = true
			}
		}
	}
	text := "mask=" + first.text("mask")
	if moved > 1 {
		text += fmt.Sprintf(" for %d queue pairs", moved)
	}
	var given []slog.Attr
	if values.Kind() == slog.KindGroup {
		given = values.Group()
	}
	return row{Printable(first.Message), text + ": " + Printable(transitionWords(first.text("to"), given, differ)) + drained}
}

// receives is the line of receives posted one after the other.
func (p *passage) receives() row {
	r := p.events[0].row()
	if n := len(p.events); n > 1 {
		r.text = fmt.Sprintf("%d RECVs (%s bytes each)", n, p.events[0].text("bytes"))
	}
	return r
}

// completed is the text of a completion.
func completed(e *Event) string {
	what := cmp.Or(strings.TrimPrefix(e.text("opcode"), "IBV_WC_"), "request")
	return Printable(what) + " (" + attrText(e.Attrs, []string{"opcode"}) + ")"
}
