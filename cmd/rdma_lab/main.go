// Command rdma_lab shows what RDMA verbs do and explains what they report: devices, GIDs,
// the states of a queue pair, and errors.
package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab"
)

// commands are the subcommands, in the order of --help. Each has its own file.
var commands = []func(*app) *cobra.Command{
	devices,
	gids,
	states,
	explain,
	doctorCommand,
	mistakes,
	reportCommand,
	serve,
	tlsCommand,
}

// app has what the subcommands share. Its fields are set before a subcommand runs.
type app struct {
	out     cli.Output
	logger  *slog.Logger
	program string // name and version
}

// report is the result of a subcommand. With --json it is printed as one JSON value.
type report interface {
	Text() string
}

func main() {
	var a app
	root := &cobra.Command{
		Use:   "rdma_lab <command>",
		Short: "Show what RDMA verbs do, and explain what they report",
		Long: `rdma_lab shows the RDMA devices of this host and their GIDs, the states of a queue
pair with the attributes of each move, and what an error number, a completion status
or an event means. It finds what is wrong with this machine, and makes the usual
mistakes on purpose, to show what each end sees. It draws a run as a page, and
serves the laboratory, where you drive queue pairs by hand in a browser. It also
makes certificates for --tls.

Exit status: 0 if the command succeeded; 1 if it failed; 2 for a wrong command line;
130 if a signal stopped it.`,
		Example: `  rdma_lab devices
  rdma_lab gids rxe0 10.0.0.2
  rdma_lab states INIT RTR
  rdma_lab explain 12
  rdma_lab explain capture shows nothing
  rdma_lab doctor 10.0.0.2
  rdma_lab mistake bad-rkey
  rdma_lab report run.jsonl
  rdma_lab serve
  rdma_lab tls lab --host 10.0.0.1`,
		Annotations: map[string]string{cli.Files: `DIR/server, DIR/client: of rdma_lab tls: the directories for --tls, each with tls.crt, tls.key and ca.crt`},
		RunE:        func(_ *cobra.Command, args []string) error { return lab.UnknownCommand(args, names()) },
		Args:        cobra.ArbitraryArgs,

		DisableFlagsInUseLine: true,
	}
	cobra.EnableCommandSorting = false
	root.PersistentFlags().BoolVar(&a.out.JSON, "json", false, "print the result as JSON")
	for _, command := range commands {
		root.AddCommand(command(&a))
	}
	os.Exit(cli.Main(root, "lab", &a.out, &a.logger, &a.program))
}

// print prints the result of a subcommand, unless err says that it has none.
func (a *app) print(cmd *cobra.Command, r report, err error) error {
	if err != nil {
		return err
	}
	if !a.out.JSON {
		_, err := io.WriteString(cmd.OutOrStdout(), r.Text())
		return err
	}
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// names returns the names of the subcommands.
func names() []string {
	var all []string
	for _, command := range commands {
		all = append(all, command(new(app)).Name())
	}
	return all
}
