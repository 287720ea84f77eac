// Command rdma_client runs an RDMA job with rdma_server. It exchanges connection data over
// TCP and uses raw verbs.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
)

func main() {
	var o run.ClientOptions
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "rdma_client [flags] <server_ip> [device] [port] [gid_index]",
		Short: "Run an RDMA job with rdma_server over raw verbs",
		Long: `rdma_client connects to rdma_server over TCP and exchanges queue pair numbers,
GIDs and regions. It moves a queue pair through RESET, INIT, RTR and RTS, then runs
the job that --job names. With --peer it is the client of another program's server
(docs/c-programs.md).

` + cli.Levels + `

The default device is the first one. The default port is 18515 (rc-example: 19875).
The default GID index is that of a RoCE v2 GID of the server's address family.

Exit status: 0 if the job succeeded; 1 if it failed; 2 for a wrong command line;
130 if a signal stopped it.`,
		Example: `  rdma_client 127.0.0.1 soft0
  rdma_client 10.0.0.1 rxe0 18515 1
  rdma_client --job write-read --text "good morning" 10.0.0.1 rxe0
  rdma_client --job file --file movie.mkv 10.0.0.1
  rdma_client --job bench-write-bw -s 1M -n 1000 10.0.0.1 rxe0
  rdma_client --tls lab/client 10.0.0.1
  rdma_client --retry 1m --job file --file movie.mkv 10.0.0.1
  rdma_client --report run.html 10.0.0.1
  rdma_client --peer pingpong -n 100 10.0.0.1 rxe0
  rdma_client --json -vv 10.0.0.1 rxe0`,
		Annotations:       map[string]string{cli.Files: cli.TLSFiles},
		Args:              cli.Arguments(1, 4),
		ValidArgsFunction: cli.CompleteArgument(1, cli.CompleteDevice),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Server = cli.Host(args[0])
			if err := cli.Positions(args[1:], &o.Options, &o.TCPPort, o.Peer.Port, 1); err != nil {
				return err
			}
			o.Progress, o.Ladder = out.Progress(), out.Drawing(cmd.OutOrStdout())
			return run.Client(cmd.Context(), o)
		},
	}
	o.Selection = cli.Select(cmd, run.ClientRole, os.Args[1:], func(f *pflag.FlagSet) {
		cli.AddFlags(f, &o.Options, &out)
		cli.AddLadder(f, &out)
		f.DurationVar(&o.Retry, "retry", 0, "after a lost connection, do the job again, as often as needed within this time of the first loss, such as 30s (default: never); an attempt that moves data for longer begins the time anew; file resumes where it was (docs/operations.md)")
		f.StringVar(&o.Record, "record", "", "write the events of both ends to this file, on one clock, as JSON lines (docs/record.md)")
		f.StringVar(&o.Report, "report", "", "write a page that draws both ends to this HTML file; with a soft device it has the packets")
	})
	cmd.AddCommand(cli.Diagram())
	os.Exit(cli.Main(cmd, "client", &out, &o.Logger, &o.Program))
}
