// Package summary shows the events of a server to the person who runs it: one line per client, what the server says
// of itself, and every warning of the control path.
package summary

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/rawverbs/rawverbs/cmd/internal/app/systemd"
	"github.com/rawverbs/rawverbs/internal/event"
)

// Handler writes lines of [slog.TextHandler]:
//
//	time=… level=INFO msg=client peer=10.0.0.2:51724 job=bulk outcome=succeeded bytes=8388608 seconds=0.012
//
// In systemd's journal each line has its priority.
type Handler struct {
	text  slog.Handler
	level slog.Level
	line  *line
}

// New writes the records of a level and above to w.
func New(w io.Writer, level slog.Level) *Handler {
	l := &line{w: w, journal: systemd.IsJournal(w)}
	return &Handler{level: level, line: l, text: slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case "who", "event", "verb", "path": // the line's text says it
			return slog.Attr{}
		}
		return a
	}})}
}

// summarized are the events of level Info that have a line, with the message of it; "" is their own.
var summarized = map[string]string{
	event.RunDone.Name():         "client",
	event.ClientFailed.Name():    "client",
	event.DeviceOpened.Name():    "",
	event.ServerListening.Name(): "",
	event.CertificateRead.Name(): "",
	event.MetricsServed.Name():   "",
	event.PageServed.Name():      "",
	event.ServerStopping.Name():  "",
	event.ServerStopped.Name():   "",
}

// Enabled says whether records of a level may be written.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs makes a handler whose records all have attrs.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{text: h.text.WithAttrs(attrs), level: h.level, line: h.line}
}

// WithGroup returns h: a summary does not show nested names.
func (h *Handler) WithGroup(string) slog.Handler { return h }

// Handle writes one record, or leaves it out.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	var kind, path string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "event":
			kind = a.Value.String()
		case "path":
			path = a.Value.String()
		}
		return true
	})
	message, is := summarized[kind]
	if !is && (r.Level < slog.LevelWarn || path != string(event.Control)) {
		return nil
	}
	if message != "" {
		r.Message = message
	}
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.level = r.Level
	return h.text.Handle(ctx, r)
}

// line writes the line of a record.
type line struct {
	w       io.Writer
	journal bool // w is systemd's

	mu    sync.Mutex // held while a record is written
	level slog.Level // of that record
}

func (l *line) Write(text []byte) (int, error) {
	if !l.journal {
		return l.w.Write(text)
	}
	n, err := l.w.Write(append([]byte(systemd.Priority(l.level)), text...))
	return min(n, len(text)), err
}
