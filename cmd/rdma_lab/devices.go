package main

import (
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab"
)

func devices(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List the RDMA devices and their ports",
		Long: `devices lists the RDMA devices that this program can open, with their ports. A
device in software, such as soft0, is opened under its name or as soft:INTERFACE.`,
		Args: cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := lab.Devices()
			return a.print(cmd, r, err)
		},
	}
}
