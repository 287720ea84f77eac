package cli

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestJournal: the lines of --log summary, on standard output, and of --quiet, on standard error, begin with their
// priority if that is systemd's journal.
func TestJournal(t *testing.T) {
	for _, out := range []Output{{Log: viewSummary}, {Quiet: true}} {
		f := testkit.Journal(t)
		event.ClientFailed.LogAt(slog.LevelError, out.logger(&checked{w: f}, f), "client")
		if text, err := os.ReadFile(f.Name()); err != nil || !strings.HasPrefix(string(text), "<3>time=") {
			t.Errorf("%+v: %q, %v", out, text, err)
		}
	}
}

// TestFailureInJournal: each line of a failure on standard error has the priority of errors in systemd's journal, and
// none elsewhere.
func TestFailureInJournal(t *testing.T) {
	for _, c := range []struct {
		args  []string
		lines []string
	}{
		{nil, []string{"x: no such device"}},
		{[]string{"--max-clienst"}, []string{"x: unknown flag: --max-clienst; did you mean --max-clients?", "Usage: x [flags]", "More: x --help"}},
	} {
		for _, priority := range []string{"<3>", ""} {
			f := testkit.Journal(t)
			if priority == "" {
				t.Setenv("JOURNAL_STREAM", "1:1")
			}
			cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return errors.New("no such device") }}
			cmd.Flags().Int("max-clients", 0, "")
			cmd.SetArgs(c.args)
			cmd.SetErr(f)
			var logger *slog.Logger
			Main(cmd, "x", new(Output), &logger, new(string))
			var want strings.Builder
			for _, line := range c.lines {
				fmt.Fprintf(&want, "%s%s\n", priority, line)
			}
			if text, err := os.ReadFile(f.Name()); err != nil || string(text) != want.String() {
				t.Errorf("%q, %v; want %q", text, err, want.String())
			}
		}
	}
}
