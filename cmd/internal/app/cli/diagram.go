// The command diagram, which draws a record.

package cli

import (
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
			rec, err := trace.ReadFile(args[0])
			if err != nil {
				return err
			}
			return rec.WriteLadder(cmd.OutOrStdout(), colour())
		},
	}
}
