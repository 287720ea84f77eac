//go:build rdma && rxe

package e2e

import (
	"net"
	"path/filepath"
	"testing"
)

// TestReportSoftWithRxe draws runs between the software device and the kernel's, in both directions, with
// the packets that the software device has sent and received.
func TestReportSoftWithRxe(t *testing.T) {
	noLeak(t)
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			folder := t.TempDir()
			record, packets, drawn := filepath.Join(folder, "run.jsonl"), filepath.Join(folder, "soft.pcap"), filepath.Join(folder, "run.html")
			server, client := []string{"--json", "--once"}, []string{"--json", "--job", "send", "--record", record}
			if side.serverDevice == softDevice {
				server = append(server, "--pcap", packets)
			} else {
				client = append(client, "--pcap", packets)
			}
			s := startBy(t, side.serverBy, "rdma_server", append(server, side.serverDevice, "0")...)
			_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
			if err != nil {
				t.Fatal(err)
			}
			startBy(t, side.clientBy, "rdma_client", append(client, side.to[0], side.clientDevice, port)...).succeeds()
			s.succeeds()
			start(t, "rdma_lab", "report", "--output", drawn, record, packets).succeeds()
			d := reportOf(t, drawn)
			d.drawsTheRun(t)
			sent := map[string]map[uint32]bool{"client": {}, "server": {}} // PSNs of SENDs that belong to a request; rxe0 may send one again
			for _, p := range d.Packets {
				if p.Opcode == "RC_SEND_ONLY" && p.Event != nil && d.Events[*p.Event].Msg == "post SEND" && d.Events[*p.Event].End == p.From {
					sent[p.From][p.PSN] = true
				}
			}
			if len(sent["client"]) != 1 || len(sent["server"]) != 1 {
				t.Errorf("of %d packets %v are SENDs of the run", len(d.Packets), sent)
			}
		})
	}
}
