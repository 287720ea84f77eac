package rcexample

import (
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
)

var structure = peertest.Structure[message]{
	Value:  message{Addr: 0x7f1122334455, RKey: 0x01020304, QPN: 0x11, LID: 0x0a0b, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
	Hex:    "00007f1122334455" + "01020304" + "00000011" + "0a0b" + "00000000000000000000ffff0a630001",
	Encode: packed.Append, Decode: packed.Decode,
}

func TestMessage(t *testing.T) { structure.Check(t) }

func TestStrangers(t *testing.T) { peertest.Meet(t, Peer.Jobs[0], peertest.Strangers) }

func FuzzDecodeMessage(f *testing.F) { structure.Fuzz(f) }
