// Command rawverbs runs programs that use libibverbs on the software device: in C, C++, Python,
// Rust or any other language, without RDMA hardware, kernel module or root.
package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

func main() {
	var out cli.Output
	var logger *slog.Logger
	var program string
	root := &cobra.Command{
		Use:   "rawverbs <command>",
		Short: "Run any RDMA program on the software device",
		Long: `rawverbs runs programs that use libibverbs on the software device, a RoCEv2
device in user space. The programs are unchanged. They need no RDMA hardware, no
kernel module and no root. They may be written in C, C++, Python, Rust or another
language, if they are linked dynamically with glibc.

Exit status of rawverbs run: that of the command; 127 if the command was not found,
126 if it cannot be run on the software device, 125 if rawverbs failed. Exit status
of the other commands: 0, or 1 for a failure. 2 stands for a wrong command line.

docs/c-on-soft.md in the repository says which programs run.`,
		Example: `  rawverbs run -- ibv_devinfo
  rawverbs run -- ib_write_bw & sleep 1; rawverbs run -- ib_write_bw 127.0.0.1
  rawverbs run --device soft:eth0 --pcap run.pcap -- ./my_program
  eval "$(rawverbs env)"; ibv_devices`,
		Annotations: map[string]string{cli.Files: `/usr/lib/rawverbs/librawverbs.so: the libraries that rawverbs preloads, beside librawverbs-core.so`},
		Args:        cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.Errorf("rawverbs needs a command; try: rawverbs run -- ibv_devinfo")
			}
			return usage.Errorf("%q is not a command of rawverbs; try: rawverbs run -- %s", args[0], args[0])
		},
		DisableFlagsInUseLine: true,
	}
	cobra.EnableCommandSorting = false
	root.AddCommand(runCommand(), envCommand())
	os.Exit(cli.Main(root, "rawverbs", &out, &logger, &program))
}
