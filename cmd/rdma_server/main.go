// Command rdma_server waits for rdma_client and does the jobs that it asks for,
// over raw verbs and a TCP exchange.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/internal/cli"
	"github.com/rawverbs/rawverbs/internal/run"
)

func main() {
	var o run.ServerOptions
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "rdma_server [flags] [device] [port] [gid_index]",
		Short: "Serve RDMA jobs to rdma_client over raw verbs",
		Long: `rdma_server listens on a TCP port, exchanges queue pair numbers, GIDs and
regions with each rdma_client, moves a queue pair through RESET, INIT, RTR and
RTS, and does its side of the job that the client asks for.

Without a device the first one is taken; without a port, 18515; without a GID
index, a RoCE v2 GID of the client's address family. Clients are served side by
side until the program is interrupted.

With --peer it is the server for clients of another kind (docs/c-programs.md),
with a --job of its own choice and that job's flags.

` + cli.Levels + `

Exit status: 0 if it was stopped between clients, or with --once the job was
done; 1 if it failed; 2 for a wrong command line; 130 if it was interrupted in
the midst of a job.`,
		Example: `  rdma_server
  rdma_server rxe0 18515 1
  rdma_server --once --json rxe0
  rdma_server --dir inbox --allow file
  rdma_server --peer pingpong -n 100 rxe0`,
		Args: cobra.MaximumNArgs(3),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return cli.CompleteDevice(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Positions(args, &o.Options, &o.TCPPort, o.Peer.Port, 0); err != nil {
				return err
			}
			return run.Serve(cmd.Context(), o)
		},
	}
	o.Selection = cli.Select(cmd, run.ServerRole, os.Args[1:], func(f *pflag.FlagSet) {
		cli.AddFlags(f, &o.Options, &out)
		f.BoolVar(&o.Once, "once", false, "serve one client that asks for a job this server does, then exit")
		f.StringVar(&o.Listen, "listen", "", "address to listen on (default: every one of this host's)")
		o.MaxSize = run.DefaultMaxSize
		f.Var(&o.MaxSize, "max-size", "largest buffer or region that an rdma_client may ask for, such as 64M")
		f.StringSliceVar(&o.Allow, "allow", nil, "do these jobs of rdma_client only (default: all): "+strings.Join(run.JobNames(), ", "))
		f.IntVar(&o.MaxClients, "max-clients", 256, fmt.Sprintf("clients served at a time, from their hello (with --peer their first byte) on; more are refused. It has %v, or --timeout", run.HelloLimit))
	})
	os.Exit(cli.Main(cmd, "server", &out, &o.Logger, &o.Program))
}
