// Command rdma_server runs the RDMA jobs that rdma_client requests. It exchanges connection
// data over TCP and uses raw verbs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/app/metrics"
	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
	"github.com/rawverbs/rawverbs/internal/admission"
)

func main() {
	var o run.ServerOptions
	var out cli.Output
	var metricsAddress string
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

With --metrics it answers Prometheus and health checks (docs/operations.md).

SIGTERM, SIGINT: no new clients; jobs go on for --grace, or until a second signal.

SIGHUP: the files of --tls are read again; without --tls it is ignored.

Exit status: 0 if a signal stopped it between clients, or if the job of --once
succeeded; 1 if it failed; 2 for a wrong command line; 130 if a signal stopped it
during a job.`,
		Example: `  rdma_server
  rdma_server rxe0 18515 1
  rdma_server --once --json rxe0
  rdma_server --dir inbox --allow file
  rdma_server --tls lab/server rxe0
  rdma_server --http 8080
  rdma_server --peer pingpong -n 100 rxe0`,
		Annotations: map[string]string{cli.Files: cli.TLSFiles + `
/etc/default/rdma_server: the options of rdma_server.service
/var/lib/rdma_server: the folder of rdma_server.service, where the files of the job file arrive
.rdma_server-KEY.part: a file of which a part has arrived, so that the client can resume`},
		Args:              cli.Arguments(0, 3),
		ValidArgsFunction: cli.CompleteArgument(0, cli.CompleteDevice),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Positions(args, &o.Options, &o.TCPPort, o.Peer.Port, 0); err != nil {
				return err
			}
			o.Listen = cli.Host(o.Listen)
			return serve(cmd.Context(), o, metricsAddress)
		},
	}
	o.Selection = cli.Select(cmd, run.ServerRole, os.Args[1:], func(f *pflag.FlagSet) {
		cli.AddFlags(f, &o.Options, &out)
		cli.AddLog(f, &out)
		f.BoolVar(&o.Once, "once", false, "serve one client that requests a job of this server, then exit")
		f.StringVar(&o.Listen, "listen", "", "address to listen on (default: all addresses of this host; with soft0 and without --tls: 127.0.0.1)")
		f.DurationVar(&o.Grace, "grace", 0, "how long jobs in progress may go on after the first signal, such as 30s; no new clients are served then")
		f.StringVar(&metricsAddress, "metrics", "", "address for Prometheus (/metrics) and health checks (/healthz), such as 127.0.0.1:9435; anyone who reaches it can read the counts")
		o.MaxSize = run.DefaultMaxSize
		f.Var(&o.MaxSize, "max-size", "largest buffer or region that an rdma_client may request, such as 64M")
		f.StringSliceVar(&o.Allow, "allow", nil, "run only these jobs of rdma_client (default: all): "+strings.Join(run.JobNames(), ", "))
		f.StringArrayVar(&o.TLSAllow, "tls-allow", nil, "serve only clients whose certificates have this name; may be repeated (default: all clients with a certificate of the CA)")
		f.IntVar(&o.MaxClientsPerAddress, "max-clients-per-address", 0, "maximum number of clients of one address (default: half of --max-clients; no limit for clients on this host)")
		f.Var(&o.MaxMemory, "max-memory", "memory that all clients together may use, such as 2G (default: half of what is left for them when the server starts, at most 2G; the log has the number)")
		f.Var(&o.MaxMemoryPerAddress, "max-memory-per-address", "memory that the clients of one address may use together (default: half of --max-memory; no limit for clients on this host)")
		f.Var(&o.PeerNetworks, "peer-networks", "networks from which a client's GID may be, such as 10.1.0.0/16; or any, or none. The address of the client's TCP connection is always allowed (default: none on a soft device, any on an RDMA device)")
		f.StringVar(&o.HTTP, "http", "", "serve a page that draws the clients while their jobs run, at this port of 127.0.0.1 or at this address, such as 8080 or 10.0.0.1:8080")
		f.IntVar(&o.MaxClients, "max-clients", 256, fmt.Sprintf("maximum number of clients at once. A full server ends clients that fall silent while they connect, or move no data, for new ones (docs/security.md), and refuses the others. A client counts from its hello (with --peer, its first byte), which must arrive within %v, or --timeout if that is less", admission.HelloLimit))
	})
	os.Exit(cli.Main(cmd, "server", &out, &o.Logger, &o.Program))
}

// serve runs the server, and its metrics if there is an address for them.
func serve(ctx context.Context, o run.ServerOptions, metricsAddress string) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // without --tls there is nothing to read again
	o.Hangup = hangup
	if metricsAddress != "" {
		o.Counts = new(run.Counts)
		m, err := metrics.Listen(ctx, metricsAddress, o.Counts, o.Logger)
		if err != nil {
			return err
		}
		defer m.Close()
	}
	return run.Serve(ctx, o)
}
