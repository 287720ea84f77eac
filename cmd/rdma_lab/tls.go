package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/secure/credentials"
)

// certificates is the report of rdma_lab tls and rdma_lab tls renew.
type certificates struct {
	Server  string    `json:"server,omitempty"`  // for rdma_server --tls
	Clients []string  `json:"clients,omitempty"` // for rdma_client --tls
	CAKey   string    `json:"ca_key,omitempty"`
	Hosts   []string  `json:"hosts,omitempty"`
	Renewed []string  `json:"renewed,omitempty"`
	Until   time.Time `json:"until"`
	cut     bool      // the CA expires then, before the time asked for
}

func (c certificates) Text() string {
	until := c.Until.Format(time.DateOnly)
	if c.Renewed != nil {
		if c.cut {
			until += ", when their CA expires"
		}
		return fmt.Sprintf("renewed the certificates of %s, valid until %s; copy each to its end\n", strings.Join(c.Renewed, ", "), until)
	}
	return fmt.Sprintf(`made certificates for %q, valid until %s
  %s   for rdma_server --tls; only the server needs it
  %s   for rdma_client --tls; copy it to the clients
  %s   renews them (rdma_lab tls renew): keep it away from both
`, c.Hosts, until, c.Server, strings.Join(c.Clients, ", "), c.CAKey)
}

func tlsCommand(a *app) *cobra.Command {
	var hosts, clients []string
	var days int
	cmd := &cobra.Command{
		Use:   "tls DIR --host HOST",
		Short: "Make certificates for rdma_server --tls and rdma_client --tls",
		Long: `tls makes a new CA and the directories DIR/server and DIR/client. Each has a
certificate (tls.crt), its key (tls.key) and the CA's certificate (ca.crt). These are
the names in a Kubernetes Secret for TLS. With --tls, each end shows its certificate and
accepts only peers with a certificate of the same CA.

HOST is the name or the address that clients connect to. Give --host again for more
names or servers. The CA is valid for ten years; "tls renew" makes new certificates of
the same CA. A site that has a CA uses certificates of that CA.`,
		Example: `  rdma_lab tls lab --host 10.0.0.1 --host server.lab
  rdma_lab tls lab --host 10.0.0.1 --client alice --client bob
  rdma_lab tls renew lab`,
		Args: cli.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, until, err := validity(days)
			if err != nil {
				return err
			}
			dir := args[0]
			if len(clients) == 0 {
				clients = []string{credentials.Client}
			}
			if err := credentials.Make(dir, hosts, clients, from, until); err != nil {
				return err
			}
			made := certificates{Server: filepath.Join(dir, credentials.Server), CAKey: filepath.Join(dir, credentials.Authority, "ca.key"), Hosts: hosts, Until: until}
			for _, name := range clients {
				made.Clients = append(made.Clients, filepath.Join(dir, name))
			}
			return a.print(cmd, made, nil)
		},
	}
	renew := &cobra.Command{
		Use:   "renew DIR",
		Short: "Make new keys and certificates of the same CA in a directory of rdma_lab tls",
		Long: `renew makes a new key and a new certificate for each end in DIR, signed by the CA in
DIR. Copy each directory to its end. rdma_server reads the new files while it runs. Old
and new certificates work with each other until the old ones expire.`,
		Example: `  rdma_lab tls renew lab
  rdma_lab tls renew lab --client carol`,
		Args: cli.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, until, err := validity(days)
			if err != nil {
				return err
			}
			ends, last, err := credentials.Renew(args[0], hosts, clients, from, until)
			if err != nil {
				return err
			}
			for i, name := range ends {
				ends[i] = filepath.Join(args[0], name)
			}
			return a.print(cmd, certificates{Renewed: ends, Until: last, cut: last.Before(until)}, nil)
		},
	}
	f := cmd.PersistentFlags()
	f.StringArrayVar(&hosts, "host", nil, "name or address of the server, as clients write it; may be repeated (default of renew: as before)")
	f.StringArrayVar(&clients, "client", nil, "name of a client, for rdma_server --tls-allow, and of its directory; may be repeated (default: client; of renew: those that are there)")
	f.IntVar(&days, "days", 30, "how long the certificates are valid")
	cmd.AddCommand(renew)
	return cmd
}

const mostDays = 3650 // so that the certificates end before their CA

// validity returns the time during which new certificates are valid. It begins an hour earlier, because the
// clocks of hosts differ.
func validity(days int) (from, until time.Time, err error) {
	if days < 1 {
		return from, until, usage.Errorf("--days %d is too short; try: --days 30", days)
	}
	if days > mostDays {
		return from, until, usage.Errorf("--days %d is longer than the ten years of the CA; try: --days %d", days, mostDays)
	}
	now := time.Now()
	return now.Add(-time.Hour), now.AddDate(0, 0, days), nil
}
