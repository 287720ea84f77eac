// Package workbench is the laboratory behind the page in web/: a Session has two hosts, each with a
// soft device, on a simulated wire with a clock that only the user moves (softroce/simulated). A
// session is a list of actions. It is deterministic, so the list is all there is to keep: undo and
// going back in time are replays, and a link is the list in compressed form.
//
//	s, err := workbench.New(workbench.Setup{})
//	result, err := s.Do(workbench.Action{Do: "alloc_pd", Host: "client", Name: "pd"})
//	snapshot := s.Snapshot(0)
//
// A call that the device refuses is an action like any other: its Result has the Refusal. The error
// of Do is for an action that has no meaning, such as one that names an object that does not exist;
// it leaves the session unchanged.
//
// The files: package action has the actions as data; objects.go, modify.go, post.go, exchange.go,
// cqevents.go and wire.go carry them out; session.go keeps the list. snapshot*.go describe what there
// is; events.go logs what happens, in the form of docs/record.md; tables.go has the transition table
// and names for the page. code.go has package program write each action in C and in Go. lessons*.go,
// exam.go and mistakes.go have the lessons; sessions.go has the calls of the page.
//
// The package is pure Go, without syscall/js: cmd/internal/lab/workbench/engine binds it to JavaScript.
package workbench
