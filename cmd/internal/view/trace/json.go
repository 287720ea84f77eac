// JSON lines: one record per line, for programs.

package trace

import (
	"io"
	"log/slog"
	"time"
)

// NewJSON writes each record as one JSON object on a line: time, level, msg, who,
// event, verb, path, and what the kind of event has. Durations are in
// nanoseconds under a name that ends in _ns. Records below level are left out.
func NewJSON(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			return slog.Int64(a.Key+"_ns", a.Value.Duration().Nanoseconds())
		}
		if a.Value.Kind() == slog.KindTime {
			return slog.String(a.Key, a.Value.Time().Format(time.RFC3339Nano))
		}
		return a
	}})
}
