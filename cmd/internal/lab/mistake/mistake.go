// Package mistake makes the usual mistakes with raw verbs, for real: two ends in one process,
// on a device, one mistake per run. Each Mistake is data and a short function. A run records
// the calls of both ends, what they reported, and on soft0 the packets. It fails unless the
// device reported what the Mistake promises.
//
// The files by subject: paths.go (addresses, PSNs, MTU, firewall), moves.go (the queue pair's
// states), memory.go (keys, bounds, rights), queues.go (receives, the send queue), ends.go
// (the end of a connection). bench.go and calls.go have the two ends and their calls, box.go a
// box between them that loses packets, wire.go the packets, report.go the printed text.
package mistake

import (
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/verbs"
)

// Mistake is one mistake.
type Mistake struct {
	Name     string
	Title    string // what is wrong
	Setting  string // what both ends do
	Question string
	Why      string
	Remedy   string
	Expect   expect
	Also     []variant // what devices other than soft0 may report instead

	run func(b *bench)
}

// variant is what some devices report instead, and why.
type variant struct {
	expect
	Why string
}

// expect is what a run must report.
type expect struct{ Client, Server reported }

// reported is what one end reports: its completions and the errnos of its calls, in order,
// and the state of its queue pair at the end.
type reported struct {
	Saw    []any // verbs.WCStatus or syscall.Errno
	State  verbs.QPState
	Events []verbs.EventType // asynchronous events of the queue pair, on a soft device
}

// outcome returns what one end reports.
func outcome(state verbs.QPState, saw ...any) reported { return reported{Saw: saw, State: state} }

// with adds asynchronous events.
func (r reported) with(events ...verbs.EventType) reported {
	r.Events = events
	return r
}

// group is the mistakes of one subject.
type group struct {
	Title    string
	Mistakes []Mistake
}

// Groups returns all mistakes.
func Groups() List {
	return List{
		{"The states of a queue pair", moves},
		{"The path between the ends", paths},
		{"Memory and keys", memory},
		{"Queues", queues},
		{"The end of a connection", ends},
	}
}

// all returns all mistakes in one list.
func all() (list []Mistake) {
	for _, g := range Groups() {
		list = append(list, g.Mistakes...)
	}
	return list
}

// Find returns a mistake by its name.
func Find(name string) (Mistake, bool) {
	list := all()
	i := slices.IndexFunc(list, func(m Mistake) bool { return m.Name == name })
	if i < 0 {
		return Mistake{}, false
	}
	return list[i], true
}

// Names returns the names of all mistakes.
func Names() (names []string) {
	for _, m := range all() {
		names = append(names, m.Name)
	}
	return names
}

// About returns the names of the mistakes that words are about: those whose names contain one
// of the words, or else those whose titles do.
func About(words string) (names []string) {
	list := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return r == '-' || r == '_' || r == ' ' })
	within := func(text string) bool {
		return slices.ContainsFunc(list, func(w string) bool { return len(w) > 3 && strings.Contains(text, w) })
	}
	var titles []string
	for _, m := range all() {
		switch {
		case within(m.Name):
			names = append(names, m.Name)
		case within(m.Title):
			titles = append(titles, m.Name)
		}
	}
	if names == nil {
		return titles
	}
	return names
}
