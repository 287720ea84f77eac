// Command rdma_server waits for rdma_client and does the jobs that it asks for,
// over raw verbs and a TCP exchange.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/internal/cli"
	"github.com/rawverbs/rawverbs/internal/lab"
)

func main() {
	var o lab.ServerOptions
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "rdma_server [flags] [device] [port] [gid_index]",
		Short: "Serve RDMA jobs to rdma_client over raw verbs",
		Long: `rdma_server listens on a TCP port, exchanges queue pair numbers, GIDs and
regions with each rdma_client, moves a queue pair through RESET, INIT, RTR and
RTS, and does its half of the job that the client asks for. Every step is told.

Without a device the first one is taken; without a port, 18515; without a GID
index, a RoCE v2 GID of the client's address family. Clients are served side by
side until the program is interrupted. The jobs are:

` + lab.DescribeJobs() + `
With --wire it is the server for clients of another kind (docs/c-programs.md),
with a job of its own choice and that job's flags:

` + lab.DescribeWires() + `
Exit status: 0 if it was stopped between clients, or with --once the job was
done; 1 if it failed; 2 for a wrong command line; 130 if it was interrupted in
the midst of a job.`,
		Example: `  rdma_server
  rdma_server rxe0 18515 1
  rdma_server --once --json rxe0
  rdma_server --dir inbox --allow file`,
		Args: cobra.MaximumNArgs(3),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return cli.CompleteDevice(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Positions(args, &o.Options, &o.TCPPort, lab.PortOf(o.Wire), 0); err != nil {
				return err
			}
			if err := lab.CompleteServerFlags(cmd.Flags(), &o.JobOptions); err != nil {
				return err
			}
			return lab.Serve(cmd.Context(), o)
		},
	}
	cli.AddFlags(cmd, &o.Options, &out)
	lab.AddServerFlags(cmd.Flags(), &o.JobOptions)
	cmd.Flags().BoolVar(&o.Once, "once", false, "serve one client whose job begins, then exit")
	cmd.Flags().StringVar(&o.Listen, "listen", "", "address to listen on (default: every one of this host's)")
	o.MaxSize = lab.DefaultMaxSize
	cmd.Flags().Var(&o.MaxSize, "max-size", "largest buffer or region that a client may ask for, such as 64M")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder for the files of the job file (default: none are taken)")
	o.MaxFile = lab.DefaultMaxFile
	cmd.Flags().Var(&o.MaxFile, "max-file", "largest file that a client may send, such as 1G")
	cmd.Flags().StringSliceVar(&o.Allow, "allow", nil, "do these jobs only (default: all): "+strings.Join(lab.JobNames(), ", "))
	cmd.Flags().IntVar(&o.MaxClients, "max-clients", 256, fmt.Sprintf("clients served at a time, from their hello (with --wire their first byte) on; more are refused. It has %v, or --timeout", lab.HelloLimit))
	os.Exit(cli.Main(cmd, "server", &out, &o.Logger, &o.Program))
}
