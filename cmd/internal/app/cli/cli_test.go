package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// full is an output without free space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestQuietIsAdvised checks that a remedy names --quiet only if the command has that flag.
func TestQuietIsAdvised(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		t.Run(fmt.Sprint(quiet), func(t *testing.T) {
			var out Output
			var logger *slog.Logger
			var program string
			var stderr bytes.Buffer
			cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "text")
				return err
			}}
			if quiet {
				cmd.Flags().BoolVar(&out.Quiet, "quiet", false, "")
			}
			cmd.SetArgs([]string{})
			cmd.SetOut(full{})
			cmd.SetErr(&stderr)
			status := Main(cmd, "x", &out, &logger, &program)
			text := stderr.String()
			if status != exitFailed || !strings.Contains(text, "try: an output with free space") || strings.Contains(text, "--quiet") != quiet {
				t.Errorf("status %d: %s", status, text)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		lowest, highest, given int
		example                string
		want                   string // "" for no error
	}{
		{0, 0, 0, "", ""},
		{1, AnyNumber, 9, "", ""},
		{0, 0, 1, "", "x takes no arguments, so \"a\" is too many; try: x --help"},
		{0, 1, 2, "  x a\n  x b", "x takes at most 1 argument, so \"b\" is too many; try: x a"},
		{1, 4, 5, "  x a", "x takes at most 4 arguments, so \"e\" is too many; try: x a"},
		{1, 4, 0, "  x a", "x takes at least 1 argument, and the command line has 0; try: x a"},
	} {
		err := Arguments(c.lowest, c.highest)(&cobra.Command{Use: "x", Example: c.example}, strings.Split("abcdefghi", "")[:c.given])
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
