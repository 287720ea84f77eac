package main

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab/doctor"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/oob"
)

func doctorCommand(a *app) *cobra.Command {
	var device string
	limit := 10 * time.Second
	cmd := &cobra.Command{
		Use:   "doctor [host[:port]]",
		Short: "Find what is wrong with this machine before a run fails",
		Long: `doctor checks what a run needs: modules, devices, their files and libraries, locked
memory, network namespaces, ports, GIDs, MTU, the firewall, and a job of each device
with itself. It checks soft0, too, which needs no kernel device. With a host it also
checks the route to it, and runs a small job with the rdma_server there. Its TCP port
is 18515 if none is given.

Each check prints a line: ok, warn, fail or skip, the check's name, and what it
found. A check is skipped if an earlier one failed, or if it does not apply. After
warn and fail comes the command that mends it, or shows more of it.

The last line says on which devices you can run everything. A machine without an RDMA
device has soft0. With --device it is a failure.

Exit status: 0 if nothing failed; 1 if a check failed; 2 for a wrong command line;
130 if a signal stopped it.`,
		Example: `  rdma_lab doctor
  rdma_lab doctor 10.0.0.2
  rdma_lab doctor --device rxe0 10.0.0.2:18515`,
		Args: cli.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var again []string
			if device != "" {
				again = append(again, "--device="+device)
			}
			if cmd.Flags().Changed("timeout") {
				again = append(again, "--timeout="+limit.String())
			}
			h := doctor.NewHost(append(again, args...))
			h.Device, h.Port = device, oob.DefaultPort
			if len(args) > 0 {
				var err error
				if h.Peer, h.Port, err = hostPort(args[0]); err != nil {
					return err
				}
			}
			if limit <= 0 {
				return usage.Errorf("a timeout of %v leaves no time; try: --timeout 10s", limit)
			}
			found := doctor.Text(cmd.OutOrStdout())
			if a.out.JSON {
				found = doctor.JSON(cmd.OutOrStdout())
			}
			return doctor.Run(cmd.Context(), h, limit, found)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&device, "device", "", "check only this device, such as rxe0 or soft:eth0")
	cmd.Flags().DurationVar(&limit, "timeout", limit, "limit of all checks together")
	cli.Complete(cmd, "device", cli.CompleteDevice)
	return cmd
}

// hostPort reads host or host:port. An IPv6 address may be in brackets; with a port it is.
func hostPort(text string) (host string, port int, err error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil { // there is no port
		host, service = cli.Host(text), strconv.Itoa(oob.DefaultPort)
		if host == "" {
			return "", 0, usage.Errorf("the host is empty; try: rdma_lab doctor 10.0.0.2")
		}
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 1 || port > 65535 || host == "" {
		return "", 0, usage.Errorf("%q is not host:port with a port from 1 to 65535", text)
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
		return "", 0, usage.Errorf("%q is not a host, host:port or an IPv6 address; try: rdma_lab doctor '[fd00::2]:%d'", text, port)
	}
	return host, port, nil
}
