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
