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
	Expect   Expect
	Also     []Variant // what devices other than soft0 may report instead

	run func(b *bench)
}

// Variant is what some devices report instead, and why.
type Variant struct {
	Expect
	Why string
}

// Expect is what a run must report.
type Expect struct{ Client, Server Outcome }

// Outcome is what one end reports: its completions and the errnos of its calls, in order,
// and the state of its queue pair at the end.
type Outcome struct {
	Saw   []any // verbs.WCStatus or syscall.Errno
	State verbs.QPState
}

// outcome makes an Outcome.
func outcome(state verbs.QPState, saw ...any) Outcome { return Outcome{saw, state} }

// Group is the mistakes of one subject.
type Group struct {
	Title    string
	Mistakes []Mistake
}

// Groups returns all mistakes.
func Groups() []Group {
	return []Group{
		{"The states of a queue pair", moves},
		{"The path between the ends", paths},
		{"Memory and keys", memory},
		{"Queues", queues},
		{"The end of a connection", ends},
	}
}

// All returns all mistakes in one list.
func All() (all []Mistake) {
	for _, g := range Groups() {
		all = append(all, g.Mistakes...)
	}
	return all
}

// Find returns a mistake by its name.
func Find(name string) (Mistake, bool) {
	all := All()
	i := slices.IndexFunc(all, func(m Mistake) bool { return m.Name == name })
	if i < 0 {
		return Mistake{}, false
	}
	return all[i], true
}

// Names returns the names of all mistakes.
func Names() (names []string) {
	for _, m := range All() {
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
	for _, m := range All() {
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
