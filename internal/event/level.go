// The levels of a connection's steps: each step is part of a command's story, but most programs connect too often to
// log all that at Info.

package event

import (
	"context"
	"log/slog"
)

// LevelKeys is the level at which package rc asks the Logger of [Steps] whether it may log keys and addresses of memory.
const LevelKeys = LevelWaits - 4

// below is by how much Steps lowers a level.
const below = slog.LevelInfo - slog.LevelDebug

// Steps returns the Logger for the steps of a connection: what this package's events have at Info is logged at Debug,
// and lower levels move by as much. A program's Logger is asked at slog.LevelDebug-12 for keys.
func Steps(log *slog.Logger) *slog.Logger {
	return Relevel(log, func(level slog.Level) slog.Level {
		if level > slog.LevelInfo {
			return level
		}
		return level - below
	})
}

// Shown returns the Logger that a command gives to package rc. It undoes [Steps], and has the keys.
func Shown(log *slog.Logger) *slog.Logger {
	return Relevel(log, func(level slog.Level) slog.Level {
		switch {
		case level == LevelKeys-below:
			return slog.LevelInfo
		case level < slog.LevelInfo:
			return level + below
		}
		return level
	})
}

// Relevel returns a Logger whose records get other levels.
func Relevel(log *slog.Logger, level func(slog.Level) slog.Level) *slog.Logger {
	return slog.New(releveled{log.Handler(), level})
}

type releveled struct {
	slog.Handler
	level func(slog.Level) slog.Level
}

func (r releveled) Enabled(ctx context.Context, level slog.Level) bool {
	return r.Handler.Enabled(ctx, r.level(level))
}

func (r releveled) Handle(ctx context.Context, record slog.Record) error {
	record.Level = r.level(record.Level)
	return r.Handler.Handle(ctx, record)
}

func (r releveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return releveled{r.Handler.WithAttrs(attrs), r.level}
}

func (r releveled) WithGroup(name string) slog.Handler {
	return releveled{r.Handler.WithGroup(name), r.level}
}
