// Package trace shows and keeps events. An event is a log/slog record of one of the
// kinds of package event. This package has the handlers that show records to a person, as
// a story or as a trace, and to a program, as JSON lines, and the handler that keeps them.
//
// A [Record] has the events that both ends of a run have kept, on one clock. The client
// fetches the server's events when the run is over ([Fetch], [Give]), estimates how far
// the server's clock is from its own, and writes a file; docs/record.md describes its
// lines. [ReadRecord] reads it. [Record.WriteLadder] draws a run from its record alone.
package trace
