package main

import (
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/internal/lab"
)

func states(a *app) *cobra.Command {
	var typ string
	cmd := &cobra.Command{
		Use:   "states [from to]",
		Short: "Show the moves of a queue pair, or the attributes of one move",
		Long: `states shows the legal moves between the states of a queue pair. With two states it
shows that move: for each attribute its bit, whether the move requires it, allows
it or forbids it, what the attribute means, and a usual value.`,
		Example: `  rdma_lab states
  rdma_lab states --type UD
  rdma_lab states INIT RTR`,
		Args: func(_ *cobra.Command, args []string) error { return lab.CheckMove(args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return lab.CompleteMove(typ, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				r, err := lab.States(typ)
				if err != nil {
					return err
				}
				return a.print(cmd, r)
			}
			r, err := lab.Move(typ, args[0], args[1])
			if err != nil {
				return err
			}
			return a.print(cmd, r)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "RC", "type of the queue pair: RC, UC or UD")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions([]string{"RC", "UC", "UD"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}
