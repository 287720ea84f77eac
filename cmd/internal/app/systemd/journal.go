// Priorities of lines in systemd's journal: sd-daemon(3).

package systemd

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
)

// Priority returns the prefix that gives a line of a level its priority in the journal, such as "<3>".
func Priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	}
	return "<6>"
}

// IsJournal reports whether systemd has connected w, or the file that w unwraps to, to the journal.
func IsJournal(w io.Writer) bool {
	stream := os.Getenv("JOURNAL_STREAM")
	if stream == "" {
		return false
	}
	if behind, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = behind.Unwrap()
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
