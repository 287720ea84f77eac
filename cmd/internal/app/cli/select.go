// The flags of a command and its help. Both depend on the job that the arguments select.

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
)

// Select adds to cmd the flags of define and the flags of the job that args select. An
// invalid selection is reported when the command runs.
func Select(cmd *cobra.Command, role run.Role, args []string, define func(*pflag.FlagSet)) *run.Selection {
	s, wrong := run.Select(role, args, define)
	s.AddFlags(cmd.Flags(), define)
	cmd.MarkFlagsMutuallyExclusive("json", "quiet")
	if cmd.Flags().Lookup("ladder") != nil {
		for _, other := range []string{"json", "quiet", "verbose"} {
			cmd.MarkFlagsMutuallyExclusive("ladder", other)
		}
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		switch {
		case c != cmd:
			return err
		case wrong != nil:
			return wrong
		}
		return s.Explain(err)
	})
	then := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if wrong != nil {
			return wrong
		}
		if err := s.Check(cmd.Flags()); err != nil {
			return err
		}
		return then(cmd, args)
	}
	usual := cmd.UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		if c != cmd {
			return usual(c)
		}
		return printUsage(c, s)
	})
	Complete(cmd, "peer", run.PeerNames)
	Complete(cmd, "job", s.Peer.Jobs.Names)
	cmd.AddCommand(jobsCommand())
	return s
}

// printUsage prints the end of --help: the flags in groups, the flags of the job first.
func printUsage(cmd *cobra.Command, s *run.Selection) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n  %s <command>\n\nExamples:\n%s\n\nCommands:\n", cmd.UseLine(), cmd.CommandPath(), cmd.Example)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(w, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	common, jobs := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, g := range s.Flags {
		jobs.AddFlagSet(g.Flags)
		fmt.Fprintf(w, "\nFlags of the job %s:\n%s", g.Job, g.Flags.FlagUsages())
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if jobs.Lookup(f.Name) == nil {
			common.AddFlag(f)
		}
	})
	fmt.Fprintf(w, "\nFlags with every job:\n%s", common.FlagUsages())
	_, err := fmt.Fprintf(w, "\n%s jobs lists the jobs; --help with --job or --peer shows the flags of that job.\n", cmd.Name())
	return err
}

func jobsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "jobs", Short: "List the jobs, and the other programs with their jobs", Long: run.Describe(),
		Args: Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), fold(run.Describe(), helpWidth()))
			return err
		},
	}
}
