// Package trace shows what happened. Everything that happens is a log/slog
// record with the attributes that package rc documents (event, verb, path); this
// package has the handlers that show records to a person, as a narration, and
// to a program, as JSON lines.
package trace

import "log/slog"

// LevelWaits is below [slog.LevelDebug]: it has waits and the contents of memory.
// Debug has the dumps of what verbs are given and give back; Info what happens.
const LevelWaits = slog.LevelDebug - 4
