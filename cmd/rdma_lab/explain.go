package main

import (
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab"
)

func explain(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain <errno|status|event|words>...",
		Short: "Explain an error, a completion status, an event, a symptom or a term",
		Long: `explain says what an errno, a completion status or an asynchronous event means, what
causes it and what to do. It takes names and numbers, with or without their C
prefix. A number may be several of them: 12 is the errno ENOMEM and the status
IBV_WC_RETRY_EXC_ERR. It also explains the terms of the glossary, the states of a queue
pair, mask bits and flags. Other words are looked up among the known symptoms.`,
		Example: `  rdma_lab explain 12
  rdma_lab explain RETRY_EXC
  rdma_lab explain IBV_EVENT_CQ_ERR
  rdma_lab explain PSN
  rdma_lab explain capture shows nothing`,
		Args:              cli.Arguments(1, cli.AnyNumber),
		ValidArgsFunction: cli.CompleteArgument(0, lab.CompleteExplain),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := lab.Explain(args)
			return a.print(cmd, r, err)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return lab.FlagError(err) })
	return cmd
}
