// The slog.Handler that the story, the trace and the record share.

package trace

import (
	"context"
	"log/slog"
	"slices"
)

// handler is a slog.Handler that passes on each record with all its attributes.
type handler struct {
	enabled func(slog.Level) bool
	handle  func(r slog.Record, attrs []slog.Attr) error
	scopes  []scope // what WithAttrs and WithGroup added, first to last
}

// scope is a group that was opened, or attributes that were added.
type scope struct {
	group string
	attrs []slog.Attr
}

// above enables the levels from a level on.
func above(least slog.Level) func(slog.Level) bool {
	return func(level slog.Level) bool { return level >= least }
}

// Enabled says whether records of a level are handled.
func (h handler) Enabled(_ context.Context, level slog.Level) bool { return h.enabled(level) }

// WithAttrs makes a handler whose records all have attrs.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.with(scope{attrs: attrs}) }

// WithGroup makes a handler whose records have what follows in a group.
func (h handler) WithGroup(name string) slog.Handler { return h.with(scope{group: name}) }

func (h handler) with(s scope) slog.Handler {
	h.scopes = append(slices.Clip(h.scopes), s)
	return h
}

// Handle handles one record.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for _, s := range slices.Backward(h.scopes) {
		if s.group != "" {
			attrs = []slog.Attr{{Key: s.group, Value: slog.GroupValue(attrs...)}}
		} else {
			attrs = append(slices.Clip(s.attrs), attrs...)
		}
	}
	return h.handle(r, attrs)
}
