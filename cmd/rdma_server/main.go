// Command rdma_server runs the RDMA jobs that rdma_client requests. It exchanges connection
// data over TCP and uses raw verbs.
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
		Long: `rdma_server listens on a TCP port and exchanges queue pair numbers, GIDs and
regions with each rdma_client. It moves a queue pair through RESET, INIT, RTR and
RTS, then runs its side of the job that the client requests. It serves several
clients at once until a signal stops it.

The default device is the first one. The default port is 18515. The default GID index
is that of a RoCE v2 GID of the client's address family.

With --peer it is the server for another program's clients (docs/c-programs.md).
--job and the job's flags then select the job.

` + cli.Levels + `

Exit status: 0 if a signal stopped it between clients, or if the job of --once
succeeded; 1 if it failed; 2 for a wrong command line; 130 if a signal stopped it
during a job.`,
		Example: `  rdma_server
  rdma_server rxe0 18515 1
  rdma_server --once --json rxe0
  rdma_server --dir inbox --allow file
  rdma_server --peer pingpong -n 100 rxe0`,
		Args: cli.Arguments(0, 3),
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
		f.BoolVar(&o.Once, "once", false, "serve one client that requests a job of this server, then exit")
		f.StringVar(&o.Listen, "listen", "", "address to listen on (default: all addresses of this host)")
		o.MaxSize = run.DefaultMaxSize
		f.Var(&o.MaxSize, "max-size", "largest buffer or region that an rdma_client may request, such as 64M")
		f.StringSliceVar(&o.Allow, "allow", nil, "run only these jobs of rdma_client (default: all): "+strings.Join(run.JobNames(), ", "))
		f.IntVar(&o.MaxClients, "max-clients", 256, fmt.Sprintf("maximum number of clients at once; more are refused. A client counts from its hello (with --peer, its first byte), which must arrive within %v, or --timeout if that is less", run.HelloLimit))
	})
	os.Exit(cli.Main(cmd, "server", &out, &o.Logger, &o.Program))
}
