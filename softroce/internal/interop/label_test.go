//go:build rdma && rxe

package interop

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestFlowLabel: all packets of a queue pair with a flow label leave from the label's source port, and
// rdma_rxe takes them as it takes others.
func TestFlowLabel(t *testing.T) {
	rxe, soft := open(t, here, "rxe0"), open(t, inPeer, "soft:veth1")
	a, b := connect(t, paths["IPv4"], rc.Config{Device: rxe}, rc.Config{Device: soft}, inPeer, mib+guard)
	relabel(t, b.QP(), 0x54321)

	ports := map[uint16]int{}
	stop, err := softroce.Capture(soft, func(_ time.Time, ip []byte) error {
		const from, udp = 12, 20 // where the IPv4 header has the sender, and where the UDP header begins
		if netip.AddrFrom4([4]byte(ip[from:])) == softAddr {
			ports[binary.BigEndian.Uint16(ip[udp:])]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("rxe requests", func(t *testing.T) { ask(t, a, b, 0) })
	t.Run("soft requests", func(t *testing.T) { ask(t, b, a, 0) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	const port = 0xc334
	if len(ports) != 1 || ports[port] == 0 {
		t.Errorf("packets by source port: %v, want only %d", ports, port)
	}
}

// softAddr is the address of veth1.
var softAddr = netip.MustParseAddr("10.99.0.2")

// relabel takes a queue pair that has sent nothing from RESET to RTS again, with a flow label.
func relabel(t *testing.T, qp *verbs.QP, label uint32) {
	t.Helper()
	attr, err := qp.Query(^verbs.QPAttrMask(0))
	if err != nil {
		t.Fatal(err)
	}
	attr.AH.GRH.FlowLabel = label
	m := qp.Machine(nil)
	if err := inPeer(func() error {
		if err := m.ToReset(); err != nil {
			return err
		}
		if err := m.ToInit(attr); err != nil {
			return err
		}
		if err := m.ToRTR(attr); err != nil {
			return err
		}
		return m.ToRTS(attr)
	}); err != nil {
		t.Fatal(err)
	}
}
