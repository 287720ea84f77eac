// The sections of docs/errors.md, and the texts as titles and without Markdown.

package diagnosis

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Section names a list of docs/errors.md by the heading above it. "" means no list.
type Section string

// The lists, in the order of the page.
const (
	Finding     Section = "Finding a device"
	Moving      Section = "Moving the queue pair"
	Completions Section = "Completions"
	Posting     Section = "Posting"
	Events      Section = "Events"
	Wire        Section = "On the wire"
	Exchange    Section = "The exchange over TCP"
)

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

// link is compiled when it is first needed: every program and the laboratory's page start with this package.
var link = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`) })

// Plain returns a text without its Markdown: code loses its marks, a link is its text.
func Plain(text string) string {
	return strings.ReplaceAll(link().ReplaceAllString(text, "$1"), "`", "")
}
