// The number of arguments of a command.

package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

// AnyNumber is a maximum of Arguments that no command line exceeds.
const AnyNumber = math.MaxInt

// Arguments checks that a command line has from lowest to highest arguments. The error
// suggests the command's first example.
func Arguments(lowest, highest int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= lowest && len(args) <= highest {
			return nil
		}
		try, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
		if try == "" {
			try = cmd.CommandPath() + " --help"
		}
		if len(args) < lowest {
			return usage.Errorf("%s takes at least %s, and the command line has %d; try: %s", cmd.CommandPath(), count(lowest), len(args), try)
		}
		takes := "at most " + count(highest)
		if highest == 0 {
			takes = "no arguments"
		}
		return usage.Errorf("%s takes %s, so %q is too many; try: %s", cmd.CommandPath(), takes, args[highest], try)
	}
}

func count(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}
