// The command diagram, which draws a record.

package cli

import (
	"fmt"
	"os"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

// Diagram returns the command that draws a file of --record.
func Diagram() *cobra.Command {
	return &cobra.Command{
		Use:   "diagram <file>",
		Short: "Draw a file of rdma_client --record as text, like --ladder",
		Args:  Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("%w; try: rdma_client --record %s …, which writes the file", err, args[0])
			}
			defer file.Close()
			rec, err := trace.ReadRecord(file)
			if err != nil {
				return errors.WithMessagef(err, "%s", args[0])
			}
			return rec.WriteLadder(cmd.OutOrStdout(), colour())
		},
	}
}
