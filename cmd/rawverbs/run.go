package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/app/preload"
)

func runCommand() *cobra.Command {
	var s preload.Settings
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command on the software device",
		Long: `run replaces itself with COMMAND. COMMAND and the programs that it starts see the
software device as the first RDMA device, before those of the system.

--device soft0 serves traffic within this host. soft:IFACE has all addresses of a
network interface, and soft:ADDRESS has one address; they reach other hosts. Only
one process at a time can have an address. In the programs' list of devices,
"soft:eth0" is "soft-eth0", because a file's name cannot have a colon.

Everything after COMMAND belongs to COMMAND. The exit status is that of COMMAND;
127 if COMMAND was not found, 126 if it cannot be run on the software device, 125
if rawverbs failed, 2 for a wrong command line.`,
		Example: `  rawverbs run -- ibv_devinfo
  rawverbs run --device soft:eth0 -- ib_write_bw
  rawverbs run --explain -- ./my_program`,
		Args: cli.Arguments(1, cli.AnyNumber),
		RunE: func(_ *cobra.Command, args []string) error { return s.Run(args) },

		DisableFlagsInUseLine: true,
	}
	c.Flags().SetInterspersed(false) // what follows COMMAND belongs to COMMAND
	settings(c.Flags(), &s)
	return c
}

func settings(flags *pflag.FlagSet, s *preload.Settings) {
	flags.StringVar(&s.Device, "device", "soft0", "the software `device`: soft0, soft:IFACE or soft:ADDRESS")
	flags.StringVar(&s.PCAP, "pcap", "", "write the device's packets to this `file`, for Wireshark; further processes add their process id to its name")
	flags.BoolVar(&s.Explain, "explain", false, "print the cause and the remedy of each failed call of libibverbs on standard error")
}

func envCommand() *cobra.Command {
	var s preload.Settings
	c := &cobra.Command{
		Use:   "env [flags]",
		Short: "Print the environment that run sets, for a shell",
		Long: `env prints the environment variables that run sets, as commands for a shell. Programs
that the shell starts afterwards see the software device. To undo this:

  unset LD_PRELOAD RAWVERBS_CORE RAWVERBS_DEVICE RAWVERBS_FILES RAWVERBS_PCAP RAWVERBS_EXPLAIN NCCL_GIN_TYPE`,
		Example: `  eval "$(rawverbs env)"; ibv_devices`,

		DisableFlagsInUseLine: true,

		Args: cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.Print(cmd.OutOrStdout())
		},
	}
	settings(c.Flags(), &s)
	return c
}
