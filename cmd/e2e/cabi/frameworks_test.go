//go:build cabi

package cabi

import (
	"strings"
	"testing"
)

// ucxEnvironment makes UCX use nothing but a transport of the device.
func ucxEnvironment(transport string) []string {
	return []string{"UCX_TLS=" + transport, "UCX_NET_DEVICES=soft0:1", "UCX_IB_GID_INDEX=1"}
}

// TestUCX runs ucx_perftest between two processes. rc_v is UCX's name for rc_verbs with ud_verbs
// for connecting.
func TestUCX(t *testing.T) {
	info := onSoft(t, "ucx_info", "-d")
	info.succeeds()
	info.has(t, "Transport: rc_verbs\n#         Device: soft0:1", "Transport: ud_verbs\n#         Device: soft0:1")
	tests := []string{"tag_lat", "tag_bw", "ucp_put_lat", "ucp_am_lat"}
	if !testing.Short() {
		tests = append(tests, "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd", "stream_lat", "stream_bw")
	}
	for _, transport := range []string{"rc_v", "ud_verbs"} {
		for _, test := range tests {
			t.Run(transport+"/"+test, func(t *testing.T) { ucxPerftest(t, transport, "-t", test, "-n", "200", "-w", "10") })
		}
		t.Run(transport+"/1 MB", func(t *testing.T) { ucxPerftest(t, transport, "-t", "tag_bw", "-n", "50", "-w", "5", "-s", "1000000") })
	}
}

func ucxPerftest(t *testing.T, transport string, args ...string) {
	t.Helper()
	port := freePort(t)
	command := append(ucxEnvironment(transport), ours("rawverbs"), "run", "--", "ucx_perftest", "-p", port)
	command = append(command, args...)
	server := start(t, command...)
	server.listens(port)
	client := start(t, append(command, "127.0.0.1")...)
	client.succeeds()
	server.succeeds()
	client.has(t, "Final:")
}

// TestLibfabric sends datagrams over libfabric's verbs provider.
func TestLibfabric(t *testing.T) {
	info := onSoft(t, "fi_info", "-p", "verbs")
	info.succeeds()
	info.has(t, "domain: soft0-dgram", "FI_EP_DGRAM")
	if strings.Contains(info.text(), "FI_EP_MSG") {
		t.Error("fi_info lists FI_EP_MSG, which needs librdmacm: docs/c-on-soft.md says otherwise")
	}
	// Without its name server, which this program does not use, libfabric needs no "localhost" in /etc/hosts.
	p := start(t, "FI_VERBS_DGRAM_USE_NAME_SERVER=0", ours("rawverbs"), "run", "--", compile(t, "libfabric", "-lfabric"), "soft0-dgram", "100")
	p.succeeds()
	p.has(t, "200 messages over verbs, domain soft0-dgram")
}
