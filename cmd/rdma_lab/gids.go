package main

import (
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab"
)

func gids(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "gids [device] [peer_ip]",
		Short: "List a device's GIDs, and which one reaches a peer",
		Long: `gids lists the filled slots of the device's GID tables: port, index, type, scope,
network interface and address. It marks the GID that this library chooses for the
peer, and says why. The default device is the first one. Without a peer, it marks
the GID for any peer.`,
		Example: `  rdma_lab gids
  rdma_lab gids soft0 127.0.0.1
  rdma_lab gids rxe0 10.0.0.2`,
		Args:              cli.Arguments(0, 2),
		ValidArgsFunction: cli.CompleteArgument(0, cli.CompleteDevice),
		RunE: func(cmd *cobra.Command, args []string) error {
			var device, peer string
			if len(args) > 0 {
				device = args[0]
			}
			if len(args) > 1 {
				peer = args[1]
			}
			r, err := lab.GIDs(device, peer)
			if r == nil {
				return err
			}
			if failed := a.print(cmd, r, nil); failed != nil {
				return failed
			}
			return err // no GID reaches the peer
		},
	}
}
