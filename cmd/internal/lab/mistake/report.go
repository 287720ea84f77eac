// What a run prints.

package mistake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/verbs"
)

// Report is a run.
type Report struct {
	Mistake     Mistake
	Device      string
	Steps       []step
	Packets     []packet // nil on a device whose packets this process does not see
	Client      seen
	Server      seen
	Differs     string           // why this device reports something else than the specification asks for
	Unsupported string           // why this device cannot show the mistake
	Broken      string           // how the device broke the promise
	General     *diagnosis.Entry // what the client's last failure can mean; nil if there was none
	Asked       bool             // the setting was printed before
}

// step is one call of one end.
type step struct {
	End    string `json:"end"`
	Call   string `json:"call"`
	Result string `json:"result,omitempty"`
}

// seen is what one end saw, and what was promised, in words.
type seen struct {
	Saw      []string `json:"saw"`
	State    string   `json:"state"`
	Promised []string `json:"promised"`
	Events   []string `json:"events,omitempty"` // asynchronous
}

// judge compares what both ends saw with the promise.
func (b *bench) judge() {
	r := b.report
	promise := r.Mistake.promise(b)
	r.Differs, r.General = promise.Why, b.client.general
	var broken []string
	for _, x := range []struct {
		end     *end
		seen    *seen
		promise reported
	}{{b.client, &r.Client, promise.Client}, {b.server, &r.Server, promise.Server}} {
		state := x.end.state(x.promise.State)
		b.step(x.end.name, "ibv_query_qp", state.String())
		*x.seen = seen{Saw: words(x.end.saw), State: state.String(), Promised: words(x.promise.Saw)}
		if !b.client.dev.Info().InProcess {
			x.promise.Events = nil // other devices may report other events
		}
		events := x.end.reportedEvents(len(x.promise.Events))
		for _, event := range events {
			x.seen.Events = append(x.seen.Events, event.String())
		}
		if b.client.dev.Info().InProcess && !slices.Equal(events, x.promise.Events) {
			broken = append(broken, fmt.Sprintf("the %s got the asynchronous events %v; promised were %v", x.end.name, events, x.promise.Events))
		}
		if !slices.Equal(x.end.saw, x.promise.Saw) || state != x.promise.State {
			broken = append(broken, fmt.Sprintf("the %s saw %s and ended in %s; promised were %s and %s",
				x.end.name, list(x.seen.Saw), state, list(x.seen.Promised), x.promise.State))
		}
	}
	r.Broken = strings.Join(broken, "; ")
	if b.wire != nil {
		r.Packets = b.wire.sofar()
	}
}

// promise returns the promise that counts on the device: on a soft device Expect, on another
// one Expect or the first variant with what both ends saw.
func (m Mistake) promise(b *bench) variant {
	if !b.client.dev.Info().InProcess {
		for _, v := range m.Also {
			if slices.Equal(b.client.saw, v.Client.Saw) && slices.Equal(b.server.saw, v.Server.Saw) {
				return v
			}
		}
	}
	return variant{expect: m.Expect}
}

func words(saw []any) []string {
	text := []string{}
	for _, s := range saw {
		switch s := s.(type) {
		case verbs.WCStatus:
			text = append(text, statusText(s))
		case syscall.Errno:
			text = append(text, errnoText(s))
		}
	}
	return text
}

func list(words []string) string {
	if len(words) == 0 {
		return "no completion"
	}
	return strings.Join(words, ", ")
}

// Err returns an error if the device broke the promise.
func (r *Report) Err() error {
	if r.Broken == "" {
		return nil
	}
	return brokenError(r.Mistake.Name + " on " + r.Device + ": " + r.Broken)
}

type brokenError string

func (e brokenError) Error() string { return string(e) }

// Text has the run and the answer.
func (r *Report) Text() string {
	var p printer
	p.line("%s on %s: %s", r.Mistake.Name, r.Device, r.Mistake.Title)
	if !r.Asked {
		p.section("Setting", r.Mistake.Setting)
	}
	if r.Unsupported != "" {
		p.section("Result", r.Unsupported+".")
	} else {
		p.Line("")
		p.run(r)
	}
	p.section("Why", r.Mistake.Why)
	p.section("Remedy", r.Mistake.Remedy)
	if g := r.General; g != nil {
		p.section("In general", fmt.Sprintf("%s: %s. Try: %s.", g.Title(), diagnosis.Plain(g.Cause), diagnosis.Plain(g.Remedy)))
	}
	return p.String()
}

// Ask has the setting and the question.
func (m Mistake) Ask() string {
	var p printer
	p.line("%s: %s", m.Name, m.Title)
	p.section("Setting", m.Setting)
	p.section("Question", m.Question)
	return p.String()
}

// run prints the calls, the packets and what was seen.
func (p *printer) run(r *Report) {
	p.line("The calls")
	for _, s := range r.Steps {
		text := s.Call
		if s.Result != "" {
			text += " → " + s.Result
		}
		p.Para(fmt.Sprintf("  %-8s", s.End), text)
	}
	p.Line("")
	p.outcome(r)
}

// outcome prints the packets and what was seen.
func (p *printer) outcome(r *Report) {
	if r.Packets != nil {
		p.packets(r.Packets)
		p.Line("")
	}
	p.seen(r, "; the queue pair is in ")
	switch {
	case r.Broken != "":
		p.Para("  ", "This breaks the promise: "+r.Broken+".")
	case r.Differs != "":
		p.Para("  ", "As promised for such a device: "+r.Differs)
	default:
		p.Para("  ", "As promised.")
	}
}

// seen prints what each end saw and, after in, its state.
func (p *printer) seen(r *Report, in string) {
	p.line("Seen")
	p.Para(fmt.Sprintf("  %-8s", "client"), r.Client.reports()+in+r.Client.State)
	p.Para(fmt.Sprintf("  %-8s", "server"), r.Server.reports()+in+r.Server.State)
}

// reports has the completions, errnos and asynchronous events.
func (s *seen) reports() string {
	text := list(s.Saw)
	if len(s.Events) > 0 {
		text += "; event " + strings.Join(s.Events, ", ")
	}
	return text
}

func (p *printer) packets(packets []packet) {
	p.line("The packets, at the client's device: direction, PSN, content")
	if len(packets) == 0 {
		p.Para("  ", "none")
	}
	p.rows(packets)
}

// rows prints a line per packet.
func (p *printer) rows(packets []packet) {
	width := 0
	for _, x := range packets {
		width = max(width, len(x.From), len(x.To))
	}
	for i, x := range packets {
		head := fmt.Sprintf("  %2d  %-*s → %-*s  %-#5x  ", i+1, width, x.From, width, x.To, x.PSN)
		text := x.Opcode
		if x.Bytes > 0 && !strings.HasPrefix(x.Carries, "RETH") { // which has the length
			text += fmt.Sprintf(", %d bytes", x.Bytes)
		}
		switch {
		case x.Opcode == acknowledge:
			text = x.Carries
		case x.Carries != "":
			text += ", " + x.Carries
		}
		if x.Again {
			text += " (again)"
		}
		p.Para(head, text)
	}
}

// MarshalJSON has the texts of the mistake beside the run.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name        string   `json:"name"`
		Title       string   `json:"title"`
		Device      string   `json:"device"`
		Setting     string   `json:"setting"`
		Question    string   `json:"question"`
		Steps       []step   `json:"steps"`
		Packets     []packet `json:"packets,omitempty"`
		Client      seen     `json:"client"`
		Server      seen     `json:"server"`
		Kept        bool     `json:"kept"`
		Broken      string   `json:"broken,omitempty"`
		Differs     string   `json:"differs,omitempty"`
		Unsupported string   `json:"unsupported,omitempty"`
		Why         string   `json:"why"`
		Remedy      string   `json:"remedy"`
		General     string   `json:"general,omitempty"` // the key of the entry in internal/diagnosis
	}{r.Mistake.Name, r.Mistake.Title, r.Device, r.Mistake.Setting, r.Mistake.Question, r.Steps, r.Packets,
		r.Client, r.Server, r.Broken == "" && r.Unsupported == "", r.Broken, r.Differs, r.Unsupported, r.Mistake.Why, r.Mistake.Remedy, key(r.General)})
}

func key(e *diagnosis.Entry) string {
	if e == nil {
		return ""
	}
	return e.Key
}

// List is the list of the mistakes.
type List []group

// Text has a line per mistake.
func (l List) Text() string {
	var p printer
	for i, g := range l {
		if i > 0 {
			p.Line("")
		}
		p.line("%s", g.Title)
		for _, m := range g.Mistakes {
			p.Para(fmt.Sprintf("  %-20s ", m.Name), m.Title)
		}
	}
	return p.String()
}

// MarshalJSON has the name, the title and the question of each mistake.
func (l List) MarshalJSON() ([]byte, error) {
	type entry struct {
		Group    string `json:"group"`
		Name     string `json:"name"`
		Title    string `json:"title"`
		Question string `json:"question"`
	}
	entries := []entry{}
	for _, g := range l {
		for _, m := range g.Mistakes {
			entries = append(entries, entry{g.Title, m.Name, m.Title, m.Question})
		}
	}
	return json.Marshal(entries)
}

// printer prints a run.
type printer struct{ columns.Page }

// line prints a line, wrapped.
func (p *printer) line(format string, args ...any) { p.Para("", fmt.Sprintf(format, args...)) }

func (p *printer) section(name, text string) {
	p.Line("")
	p.line("%s", name)
	p.Para("  ", text)
}
