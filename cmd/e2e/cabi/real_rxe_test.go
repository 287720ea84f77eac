//go:build cabi && rxe

// Tests in the machine, where the kernel has a real device, rxe0. They run in a network namespace,
// because rdma_rxe has UDP port 4791 of every address in its own. rxe0 can be used in every
// namespace.

package cabi

import "testing"

// TestRealDevice uses rxe0 through the shim: the shim hands the calls on to the real library.
func TestRealDevice(t *testing.T) {
	for _, command := range [][]string{
		{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100", "-c", "-p"},
		{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100", "-c", "-e", "-p"},
		{"ib_write_bw", "-d", "rxe0", "-x", "1", "-n", "100", "-p"},
		{"ib_send_lat", "-d", "rxe0", "-x", "1", "-n", "100", "-p"}, // with -e it may hang on rxe0, without rawverbs too
	} {
		t.Run(command[0], func(t *testing.T) {
			port := freePort(t)
			command := append(command, port)
			server := onSoft(t, command...)
			server.listens(port)
			client := onSoft(t, append(command, "127.0.0.1")...)
			client.succeeds()
			server.succeeds()
		})
	}
}

// TestRealMachine runs perftest on the software device, beside a real device. The machine is slow, and
// two polling ends share its processors.
func TestRealMachine(t *testing.T) {
	for _, name := range []string{"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_send_lat"} {
		t.Run(name, perftest{name, "-d soft0 -n 50"}.withItself)
	}
}

// TestRealBesideSoft opens the soft device and rxe0 in one process.
func TestRealBesideSoft(t *testing.T) {
	p := onSoft(t, compile(t, "both"), "soft0", "rxe0")
	p.succeeds()
	p.has(t, "2 devices")
}

// TestRealFiles lists the files of both.
func TestRealFiles(t *testing.T) {
	p := onSoft(t, "bash", "-ec", `
		ls -l /sys/class/infiniband /dev/infiniband
		for d in /sys/class/infiniband/*; do echo "$d is $(cat $d/node_type)"; done
		realpath /sys/class/infiniband/rxe0
		cat /sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/1`)
	p.succeeds()
	p.has(t, "soft0 -> ", "rxe0 -> ", "uverbs0", "uverbs4791", "/sys/class/infiniband/rxe0 is 1: CA", "/sys/class/infiniband/soft0 is 1: CA",
		"/sys/devices/virtual/infiniband/rxe0", "veth0")
}
