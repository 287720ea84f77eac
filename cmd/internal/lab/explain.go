// Explanations of errnos, statuses, events and symptoms, and of the words of the field.

package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

// Explanation is the report of what is known about a name, a number or a symptom.
type Explanation struct {
	Query   string  `json:"query"`
	Terms   []Term  `json:"terms,omitempty"`
	Entries []Entry `json:"entries"`
}

// Entry is one thing that the query may mean.
type Entry struct {
	Key     string         `json:"key"`
	Kind    diagnosis.Kind `json:"kind"`
	Name    string         `json:"name,omitempty"`
	Number  *int           `json:"number,omitempty"`
	Text    string         `json:"text,omitempty"` // what C prints for it
	Calls   []string       `json:"calls,omitempty"`
	Symptom string         `json:"symptom,omitempty"`
	Cause   string         `json:"cause"`
	Remedy  string         `json:"remedy"`
	Lesson  string         `json:"lesson"`
	About   []string       `json:"about,omitempty"`
}

// Explain returns the terms and the entries that a query asks for. A query without an entry is an error
// that names a similar one.
func Explain(words []string) (*Explanation, error) {
	words = normal(words)
	query := strings.Join(words, " ")
	found := diagnosis.Find(words...)
	x := &Explanation{Query: query, Entries: []Entry{}}
	if asked := asking(query); len(asked) > 0 {
		x.Terms = findTerms(asked)
		if len(x.Terms) > 0 {
			found = slices.DeleteFunc(found, func(e *diagnosis.Entry) bool { return !about(e, asked) })
		}
	}
	if len(found)+len(x.Terms) == 0 {
		return nil, unknown(words, query)
	}
	for _, e := range found {
		entry := Entry{
			Key: e.Key, Kind: e.Kind, Name: e.Name, Text: e.Text, Calls: e.Calls, About: e.About, Lesson: e.Lesson,
			Symptom: diagnosis.Plain(e.Symptom), Cause: diagnosis.Plain(e.Cause), Remedy: diagnosis.Plain(e.Remedy),
		}
		if e.Kind != diagnosis.Symptom {
			entry.Number = &e.Number
		}
		x.Entries = append(x.Entries, entry)
	}
	return x, nil
}

// normal splits words at spaces and takes away what surrounds them in a message: brackets,
// commas, and the minus of a kernel's errno.
func normal(words []string) []string {
	words = strings.Fields(strings.Join(words, " "))
	for i, word := range words {
		word = strings.Trim(word, `()[]{},;:."'`)
		if rest, ok := strings.CutPrefix(word, "-"); ok {
			if _, err := strconv.Atoi(rest); err == nil {
				word = rest
			}
		}
		words[i] = word
	}
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

// FlagError adds to the error of a wrong flag how a negative errno is given.
func FlagError(err error) error {
	return usage.Errorf("%w; try: explain 22 or explain -- -22 for the errno of a kernel's message", err)
}

func unknown(words []string, query string) error {
	const other = "a name such as ENOMEM, RETRY_EXC, PSN or INIT, a number, or words of the symptom"
	if len(words) == 0 {
		return usage.Errorf("nothing to explain; try: %s", other)
	}
	if _, err := strconv.Atoi(words[len(words)-1]); err == nil {
		return usage.Errorf("no errno, completion status or event is %q; try: %s", query, other)
	}
	if len(words) == 1 {
		for _, names := range [][]string{entryNames(), termNames()} {
			if best := Closest(words[0], names); best != "" {
				return usage.Errorf("nothing is known of %q; try: %s", query, best)
			}
		}
	}
	return usage.Errorf("nothing is known of %q; try: %s", query, other)
}

// CompleteExplain returns the names that can be explained: without their C prefixes, the
// calls, and the terms.
func CompleteExplain() []string { return slices.Concat(entryNames(), termNames()) }

// entryNames returns those of the entries, sorted.
func entryNames() []string {
	var names []string
	for _, e := range diagnosis.Entries() {
		if e.Name != "" && len(e.Calls) == 0 {
			names = append(names, e.Short())
		}
		names = append(names, e.Calls...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// termNames returns the short names of the terms.
func termNames() (names []string) {
	for _, t := range terms() {
		names = append(names, strings.ToUpper(strings.Join(t.asks[0], "_")))
	}
	return names
}

// Text has the entries. Of a number that means several things it says so first.
func (x *Explanation) Text() string {
	var p columns.Page
	if text := x.several(); text != "" {
		p.Para("", text)
		p.Line("")
	}
	for i, t := range x.Terms {
		if i > 0 {
			p.Line("")
		}
		p.Para(t.Kind+": ", t.Name)
		p.Para("  means:   ", t.Text)
		p.Para("  read:    ", t.Lesson)
	}
	if len(x.Terms) > 0 && len(x.Entries) > 0 {
		p.Line("")
	}
	for i, e := range x.Entries {
		if i > 0 && len(x.Entries) > whole {
			x.rest(&p)
			break
		}
		if i > 0 {
			p.Line("")
		}
		e.print(&p)
		if e.Kind == diagnosis.Errno && x.isNumber() && len(diagnosis.Find(e.Name)) > 1 {
			p.Line("  more:    rdma_lab explain " + e.Name + " shows the calls and symptoms with it")
		}
	}
	return p.String()
}

// several says that a number means several things, and which is which. It returns "" for
// other queries.
func (x *Explanation) several() string {
	if !x.isNumber() || len(x.Entries) < 2 {
		return ""
	}
	where := map[diagnosis.Kind]string{
		diagnosis.Errno:  "an errno, if a call failed with it",
		diagnosis.Status: "a status, if a completion has it (wc.status)",
		diagnosis.Event:  "an event, if ibv_get_async_event returned it",
	}
	var parts []string
	for _, e := range x.Entries {
		parts = append(parts, where[e.Kind])
	}
	last := len(parts) - 1
	return x.Query + " is " + strings.Join(parts[:last], "; ") + "; or " + parts[last] + "."
}

// whole is the largest number of entries that are printed as a whole.
const whole = 6

// rest prints all entries but the first in short: the causes by call or symptom. It leaves out
// the remedies for an errno alone, which has too many.
func (x *Explanation) rest(p *columns.Page) {
	p.Line("")
	first := x.Entries[0]
	alone := first.Kind == diagnosis.Errno && len(first.Calls) == 0
	if alone {
		p.Para("", "By call and by symptom (for remedies: rdma_lab explain CALL "+first.Name+"):")
	} else {
		p.Line("More causes:")
	}
	before := ""
	for _, e := range x.Entries[1:] {
		title := e.Symptom
		if len(e.Calls) > 0 {
			title = strings.Join(e.Calls, ", ")
			if !alone {
				title += ": " + e.Name
			}
		}
		if title != before {
			p.Para("  ", title+":")
			before = title
		}
		text := e.Cause
		if !alone {
			text += "; try: " + e.Remedy
		}
		p.Para("    - ", text)
	}
}

func (x *Explanation) isNumber() bool {
	_, err := strconv.Atoi(x.Query)
	return err == nil
}

func (e *Entry) print(p *columns.Page) {
	switch {
	case e.Kind == diagnosis.Symptom:
		p.Para("symptom: ", e.Symptom)
	case len(e.Calls) > 0:
		p.Para("", fmt.Sprintf("%s (%d) from %s", e.Name, *e.Number, strings.Join(e.Calls, ", ")))
	default:
		p.Para("", fmt.Sprintf("%s %d, %s: %s", e.Kind, *e.Number, e.Name, e.Text))
	}
	if e.Symptom != "" && e.Kind != diagnosis.Symptom {
		p.Para("  seen as: ", e.Symptom)
	}
	p.Para("  cause:   ", e.Cause)
	p.Para("  try:     ", e.Remedy)
	p.Para("  read:    ", e.Lesson)
}
