package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

func TestFold(t *testing.T) {
	const text = `One paragraph
of two lines.

  indented as it
  was
      --flag int   what the flag does
`
	const want = `One paragraph of two
lines.

  indented as it
  was
      --flag int
          what the
          flag does
`
	if got := fold(text, 20); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestHelpFits prints help without a terminal.
func TestHelpFits(t *testing.T) {
	var out Output
	var logger *slog.Logger
	var program string
	long := strings.Repeat("word ", 40)
	for _, args := range [][]string{{"--help"}, {"sub", "--help"}, {"help", "sub"}} {
		cmd := &cobra.Command{Use: "x", Long: long, RunE: func(*cobra.Command, []string) error { return nil }}
		cmd.Flags().BoolVar(&out.JSON, "json", false, long)
		sub := &cobra.Command{Use: "sub", Short: "a command", Long: long, RunE: cmd.RunE}
		sub.Flags().Bool("flag", false, long)
		cmd.AddCommand(sub)
		var stdout bytes.Buffer
		cmd.SetArgs(args)
		cmd.SetOut(&stdout)
		if status := Main(cmd, "x", &out, &logger, &program); status != exitDone || strings.Count(stdout.String(), "word") < 80 {
			t.Errorf("%v: status %d\n%s", args, status, &stdout)
		}
		for line := range strings.Lines(stdout.String()) {
			if n := columns.Of(strings.TrimSuffix(line, "\n")); n > usualWidth {
				t.Errorf("%v: %d columns: %s", args, n, line)
			}
		}
	}
}
