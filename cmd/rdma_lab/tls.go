package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/internal/cli"
	"github.com/rawverbs/rawverbs/internal/credentials"
	"github.com/rawverbs/rawverbs/internal/job"
)

// certificates is the report of rdma_lab tls.
type certificates struct {
	Server string    `json:"server"` // for rdma_server --tls
	Client string    `json:"client"` // for rdma_client --tls
	CAKey  string    `json:"ca_key"`
	Hosts  []string  `json:"hosts"`
	Until  time.Time `json:"until"`
}

func (c certificates) Fprint(w io.Writer) error {
	_, err := fmt.Fprintf(w, `made certificates for %q, valid until %s
  %s   for rdma_server --tls; only the server needs it
  %s   for rdma_client --tls; copy it to the clients
  %s   makes further certificates: keep it away from both
`, c.Hosts, c.Until.Format(time.DateOnly), c.Server, c.Client, c.CAKey)
	return err
}

func tlsCommand(a *app) *cobra.Command {
	var hosts []string
	var days int
	cmd := &cobra.Command{
		Use:   "tls DIR --host HOST",
		Short: "Make certificates for rdma_server --tls and rdma_client --tls",
		Long: `tls makes a new CA and the directories DIR/server and DIR/client. Each has a
certificate (tls.crt), its key (tls.key) and the CA's certificate (ca.crt). These are
the names in a Kubernetes Secret for TLS. With --tls, each end shows its certificate and
accepts only peers with a certificate of the same CA.

HOST is the name or the address that clients connect to. Give --host again for more
names or servers. A site that has a CA uses certificates of that CA.`,
		Example: `  rdma_lab tls lab --host 10.0.0.1 --host server.lab
  rdma_lab tls lab --host 127.0.0.1 --days 1`,
		Args: cli.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if days < 1 {
				return job.Usagef("--days %d is too short; try: --days 30", days)
			}
			dir, now := args[0], time.Now()
			// An hour earlier, because the clocks of hosts differ.
			until := now.AddDate(0, 0, days)
			if err := credentials.Make(dir, hosts, now.Add(-time.Hour), until); err != nil {
				return err
			}
			return a.print(cmd, certificates{
				Server: filepath.Join(dir, credentials.Server), Client: filepath.Join(dir, credentials.Client),
				CAKey: filepath.Join(dir, credentials.Authority, "ca.key"), Hosts: hosts, Until: until,
			})
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "name or address of the server, as clients write it; may be repeated")
	cmd.Flags().IntVar(&days, "days", 30, "how long the certificates are valid")
	return cmd
}
