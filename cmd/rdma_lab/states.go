package main

import (
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab"
)

func states(a *app) *cobra.Command {
	var typ string
	cmd := &cobra.Command{
		Use:   "states [from [to]]",
		Short: "Show the states of a queue pair, and the attributes of their moves",
		Long: `states shows the legal moves between the states of a queue pair. With one state it
shows what the state allows, and the moves from it. With two states it shows that move: for each attribute its bit, whether the move requires it, allows
it or forbids it, what the attribute means, and a usual value.`,
		Example: `  rdma_lab states
  rdma_lab states --type UD
  rdma_lab states INIT
  rdma_lab states INIT RTR`,
		Args: cli.Arguments(0, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return lab.CompleteMove(typ, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var r report
			var err error
			switch len(args) {
			case 0:
				r, err = lab.States(typ)
			case 1:
				r, err = lab.State(typ, args[0])
			default:
				r, err = lab.Move(typ, args[0], args[1])
			}
			return a.print(cmd, r, err)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "RC", "type of the queue pair: RC, UC or UD")
	cli.Complete(cmd, "type", func() []string { return []string{"RC", "UC", "UD"} })
	return cmd
}
