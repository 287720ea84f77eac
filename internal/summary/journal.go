// Priorities of lines in systemd's journal: sd-daemon(3).

package summary

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// line writes the line of a record.
type line struct {
	w       io.Writer
	journal bool

	mu    sync.Mutex // held while a record is written
	level slog.Level // of that record
}

func (l *line) Write(text []byte) (int, error) {
	if !l.journal {
		return l.w.Write(text)
	}
	n, err := l.w.Write(append([]byte(priority(l.level)), text...))
	return min(n, len(text)), err
}

func priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	}
	return "<6>"
}

// isJournal reports whether systemd has connected w, or the file behind it, to the journal.
func isJournal(w io.Writer) bool {
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
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
