package rocev2learn

import (
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
)

var structure = peertest.Structure[queuePair]{
	Value:  queuePair{QPN: 0x123456, LID: 0x0a0b, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
	Hex:    "56341200" + "0b0a" + "00000000000000000000ffff0a630001",
	Encode: packed.Append, Decode: packed.Decode,
}

func TestQueuePair(t *testing.T) { structure.Check(t) }

func TestStrangers(t *testing.T) { peertest.Meet(t, Peer.Jobs[0], peertest.Strangers) }

// TestQueuePairNumbersThatLookLikeAGreeting uses numbers that look like another protocol in
// little-endian order: 0x316 begins like a TLS handshake.
func TestQueuePairNumbersThatLookLikeAGreeting(t *testing.T) {
	for _, qpn := range []uint32{0x314, 0x316, 0x10316, 0x30316, 0x362e36} {
		data, err := packed.Append(nil, queuePair{QPN: qpn})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := packed.Decode(data); err != nil || m.QPN != qpn {
			t.Errorf("QPN %#x: %+v, %v", qpn, m, err)
		}
	}
}

func FuzzDecodeQueuePair(f *testing.F) { structure.Fuzz(f) }
