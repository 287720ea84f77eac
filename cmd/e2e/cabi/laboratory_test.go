//go:build cabi

// Sessions of the laboratory as programs: each lesson, solved, and each mistake, in C and in Go.

package cabi

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench"
)

// session is a session of the laboratory.
type session struct {
	name string
	*workbench.Session
}

// sessions returns the lessons and the mistakes as sessions, except those whose results a program
// cannot have: the user changes packets, or (wrong-gid) the test's network does not lead to an address.
func sessions(t *testing.T) (list []session) {
	t.Helper()
	tables := workbench.AllTables()
	add := func(name string, setup workbench.Setup, actions []workbench.Action) {
		if name == "mistake-wrong-gid" || slices.ContainsFunc(actions, func(a workbench.Action) bool {
			return slices.Contains([]string{"drop", "corrupt", "delay", "mark"}, a.Do)
		}) {
			return
		}
		s, err := workbench.Replay(setup, actions)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = s.Close() })
		list = append(list, session{name, s})
	}
	for _, l := range tables.Lessons {
		add("lesson-"+l.ID, workbench.Setup{Lesson: l.ID}, slices.Concat(l.Start, l.Solution))
	}
	for _, m := range tables.Mistakes {
		add("mistake-"+m.Name, workbench.Setup{}, m.Actions)
	}
	return list
}

// source writes the session as a program into a folder of its own.
func (s session) source(t *testing.T, language, file string) string {
	t.Helper()
	text, err := s.Program(language)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, s.name, language, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// inC builds the session's program in C.
func (s session) inC(t *testing.T) string {
	t.Helper()
	source := s.source(t, "c", "session.c")
	program := strings.TrimSuffix(source, ".c")
	if text, err := exec.CommandContext(t.Context(), "cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, text)
	}
	return program
}

// inGo builds the session's program in Go, as a module of its own.
func (s session) inGo(t *testing.T) string {
	t.Helper()
	dir := filepath.Dir(s.source(t, "go", "main.go"))
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			_, versions, _ := strings.Cut(string(text), "\n")
			text = []byte("module session\n" + versions + "\nrequire github.com/rawverbs/rawverbs v0.0.0\nreplace github.com/rawverbs/rawverbs => " + root + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "session", ".")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return filepath.Join(dir, "session")
}

const asInTheLaboratory = "0 results differ from the laboratory's"

// TestSessionsInC runs the sessions' programs in C on soft0. A program compares each result with the
// laboratory's.
func TestSessionsInC(t *testing.T) {
	for _, s := range sessions(t) {
		if s.name == "lesson-signalling" || s.name == "lesson-overrun" {
			continue // whether a queue overflows on soft0 depends on how soon its ACKs come
		}
		t.Run(s.name, func(t *testing.T) {
			p := onSoft(t, s.inC(t))
			p.succeeds()
			p.has(t, asInTheLaboratory)
		})
	}
}

// inBoth are the sessions whose programs in C and in Go are compared, on soft0 and on rxe0.
var inBoth = []string{"lesson-rdma", "lesson-errors"}

// TestSessionsInGo runs sessions' programs in Go on soft0.
func TestSessionsInGo(t *testing.T) {
	for _, s := range chosen(t, inBoth...) {
		t.Run(s.name, func(t *testing.T) {
			p := start(t, s.inGo(t), "soft0")
			p.succeeds()
			p.has(t, asInTheLaboratory)
		})
	}
}

// chosen returns the sessions with these names.
func chosen(t *testing.T, names ...string) []session {
	t.Helper()
	list := slices.DeleteFunc(sessions(t), func(s session) bool { return !slices.Contains(names, s.name) })
	if len(list) != len(names) {
		t.Fatalf("%d sessions have the names %v", len(list), names)
	}
	return list
}
