// Short flags that depend on the job.

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reletter gives flags other short names; who has had such a name loses it.
func reletter(cmd *cobra.Command, letters map[string]string) {
	if len(letters) == 0 {
		return
	}
	taken := map[string]bool{}
	for _, letter := range letters {
		taken[letter] = true
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddFlagSet(cmd.Flags())
	cmd.ResetFlags()
	flags.VisitAll(func(f *pflag.Flag) {
		if letter, ok := letters[f.Name]; ok {
			f.Shorthand = letter
		} else if taken[f.Shorthand] {
			f.Shorthand = ""
		}
		cmd.Flags().AddFlag(f)
	})
}
