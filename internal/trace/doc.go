// Package trace shows and keeps what happened. Everything that happens is a
// log/slog record with the attributes that package rc documents (event, verb,
// path); this package has the handlers that show records to a person, as a
// story or as a trace, and to a program, as JSON lines; and the one that keeps them.
//
// Of what both ends of a run have kept a [Record] is made, on one clock: the
// client fetches the server's half when the run is over ([Fetch], [Give]),
// estimates how far the server's clock is from its own, and writes a file whose
// every line docs/record.md describes. [ReadRecord] reads it: pictures of a run
// are drawn from that and from nothing else.
package trace

import "log/slog"

// LevelWaits is below [slog.LevelDebug]: it has waits and the contents of memory.
// Debug has the dumps of what verbs are given and give back; Info what happens.
const LevelWaits = slog.LevelDebug - 4
