// The number of arguments of a command.

package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/internal/job"
)

// AnyNumber is a maximum of Arguments that no command line exceeds.
const AnyNumber = math.MaxInt

// Arguments checks that a command line has from lowest to highest arguments. The error
// suggests the command's first example.
func Arguments(lowest, highest int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		limit, n := "at least", lowest
		switch {
		case len(args) > highest:
			limit, n = "at most", highest
		case len(args) >= lowest:
			return nil
		}
		try, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
		if try == "" {
			try = cmd.CommandPath() + " --help"
		}
		takes := fmt.Sprintf("%s %d arguments", limit, n)
		switch {
		case n == 0:
			takes = "no arguments"
		case n == 1:
			takes = limit + " 1 argument"
		}
		return job.Usagef("%s takes %s, and the command line has %d; try: %s", cmd.CommandPath(), takes, len(args), try)
	}
}
