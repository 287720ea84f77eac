// Package event declares each kind of event that a connection, a job or a command logs,
// and logs it: as a record of log/slog with the attributes "event", "verb" and "path".
package event

import (
	"context"
	"log/slog"
	"time"
)

// Path is the part of a connection's work that an event belongs to.
type Path string

// The paths.
const (
	Control Path = "control" // objects, moves of queue pairs, messages over TCP: the kernel takes part
	Data    Path = "data"    // work requests and completions, past the kernel
	Info    Path = "info"    // a dump, or a remark of the program
	None    Path = ""        // the record has no attribute "path"
)

// NoVerb is the verb of a kind that stands for no C call: its records have no attribute
// "verb".
const NoVerb = ""

// TCP is the verb of a kind that stands for a message over TCP.
const TCP = "tcp"

// LevelWaits is a level below [slog.LevelDebug]: waits, the contents of memory, and
// messages that are about a run and no part of it. Debug has dumps, Info the rest.
const LevelWaits = slog.LevelDebug - 4

// Kind is one kind of event. Two kinds may share a name if they differ in their verbs.
type Kind struct {
	name string
	path Path
	verb string
}

// Name returns the value of the attribute "event".
func (k *Kind) Name() string { return k.name }

// Path returns the value of the attribute "path".
func (k *Kind) Path() Path { return k.path }

// Verb returns the value of the attribute "verb", such as "ibv_modify_qp".
func (k *Kind) Verb() string { return k.verb }

// Log logs an event at the level Info. The text is for people.
func (k *Kind) Log(log *slog.Logger, text string, attrs ...slog.Attr) {
	k.LogAt(slog.LevelInfo, log, text, attrs...)
}

// LogAt logs an event at a level.
func (k *Kind) LogAt(level slog.Level, log *slog.Logger, text string, attrs ...slog.Attr) {
	if ctx := context.Background(); log.Enabled(ctx, level) {
		log.LogAttrs(ctx, level, text, k.attrs(attrs)...)
	}
}

// LogPast logs, at a level, an event that happened at a time in the past.
func (k *Kind) LogPast(at time.Time, level slog.Level, log *slog.Logger, text string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !log.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(at, level, text, 0)
	r.AddAttrs(k.attrs(attrs)...)
	_ = log.Handler().Handle(ctx, r) // a Logger drops the error too
}

// attrs returns the attributes of a record: those of the kind, then its own.
func (k *Kind) attrs(own []slog.Attr) []slog.Attr {
	all := make([]slog.Attr, 0, 3+len(own))
	all = append(all, slog.String("event", k.name))
	if k.verb != NoVerb {
		all = append(all, slog.String("verb", k.verb))
	}
	if k.path != None {
		all = append(all, slog.String("path", string(k.path)))
	}
	return append(all, own...)
}

// ByVerb is a kind of event for which each record says which verb it stands for.
type ByVerb struct {
	name string
	path Path
}

// Name returns the value of the attribute "event".
func (v ByVerb) Name() string { return v.name }

// By returns the kind with a verb.
func (v ByVerb) By(verb string) *Kind { return &Kind{v.name, v.path, verb} }
