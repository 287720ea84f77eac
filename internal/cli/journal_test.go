package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/internal/event"
)

// TestJournal: the lines of --log summary, on standard output, and of --quiet, on standard error, begin with their
// priority if that is systemd's journal.
func TestJournal(t *testing.T) {
	for _, out := range []Output{{Log: viewSummary}, {Quiet: true}} {
		f, err := os.Create(filepath.Join(t.TempDir(), "journal"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var s syscall.Stat_t
		if err := syscall.Fstat(int(f.Fd()), &s); err != nil {
			t.Fatal(err)
		}
		t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", s.Dev, s.Ino))
		event.ClientFailed.LogAt(slog.LevelError, out.logger(&checked{w: f}, f), "client")
		if text, err := os.ReadFile(f.Name()); err != nil || !strings.HasPrefix(string(text), "<3>time=") {
			t.Errorf("%+v: %q, %v", out, text, err)
		}
	}
}
