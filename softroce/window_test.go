package softroce

import (
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
)

// TestWindow checks that the packets in flight to one address fit into a receive buffer like the device's own.
func TestWindow(t *testing.T) {
	for buffer, want := range map[int]map[qpstate.MTU]int{
		SmallBufferBytes: {qpstate.MTU4096: 52, qpstate.MTU1024: 208, qpstate.MTU256: 256},
		16 << 10:         {qpstate.MTU4096: 16, qpstate.MTU1024: 16},
		8 << 20:          {qpstate.MTU4096: 256},
		0:                {qpstate.MTU4096: 256}, // a link without a buffer of its own
	} {
		for mtu, packets := range want {
			ports := []*port{{link: buffered{bytes: buffer}}}
			if got := window(ports, mtu); got != packets {
				t.Errorf("a buffer of %d bytes, MTU %d: %d packets, want %d", buffer, mtu.Bytes(), got, packets)
			}
		}
	}
}

// TestNotes: what several links say is said once.
func TestNotes(t *testing.T) {
	dev, _ := OpenSimulated(t)
	if got := Notes(dev); len(got) != 1 || got[0] != "the network is simulated" {
		t.Errorf("the notes are %q", got)
	}
}

// buffered is a link with a receive buffer.
type buffered struct {
	link.Link
	bytes int
}

func (b buffered) Status() link.Status { return link.Status{ReceiveBuffer: b.bytes} }
