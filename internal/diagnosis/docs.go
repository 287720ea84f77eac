// The tables of docs/errors.md.

package diagnosis

import (
	"fmt"
	"regexp"
	"strings"
)

// Section is a table of docs/errors.md: the heading above it. "" is none.
type Section string

// The tables, in the order of the page.
const (
	Finding     Section = "Finding a device"
	Moving      Section = "Moving the queue pair"
	Completions Section = "Completions"
	Posting     Section = "Posting"
	Events      Section = "Events"
	Wire        Section = "On the wire"
	Exchange    Section = "The exchange over TCP"
)

// Sections returns the tables in the order of the page.
func Sections() []Section {
	return []Section{Finding, Moving, Completions, Posting, Events, Wire, Exchange}
}

// Table returns a table of docs/errors.md in Markdown.
func Table(s Section) string {
	var b strings.Builder
	b.WriteString("| symptom | cause | try |\n|---|---|---|\n")
	for _, e := range entries {
		if e.Section == s {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(e.Title()), cell(e.Cause), cell(e.Remedy))
		}
	}
	return b.String()
}

// Title returns the symptom, or what stands for one: "RETRY_EXC_ERR (12)",
// "ibv_reg_mr: ENOMEM", "IBV_EVENT_CQ_ERR".
func (e *Entry) Title() string {
	switch {
	case e.Symptom != "":
		return e.Symptom
	case e.Kind == Status:
		return fmt.Sprintf("%s (%d)", e.Short(), e.Number)
	case len(e.Calls) > 0:
		return strings.Join(e.Calls, ", ") + ": " + e.Name
	}
	return e.Name
}

// cell escapes what a cell of a table must not have.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text)
}

var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)

// Plain returns a text without its Markdown: code loses its marks, a link is its text.
func Plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}
