// The messages of the rocev2-learn programs, packed, as they lie in the memory of a
// little-endian host. Both ends write, then read. There is no PSN and no MTU.
//
// Earlier copies of the programs have one queue pair, and send 22 bytes:
//
//	offset size field
//	     0    4 queue pair number
//	     4    2 LID
//	     6   16 GID, raw
//
// Later copies send the number of their queue pairs, 4 bytes, and then those 22 bytes for each.
// The number is at most 16, and queue pair numbers are larger, so the first 4 bytes distinguish
// the two formats.
//
// Then the server sends one byte 'R' when its receives are posted.

package rocev2learn

import (
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
)

// The numbers of the rocev2-learn programs.
const (
	queuePairSize = 22  // bytes
	countSize     = 4   // bytes
	maxQueuePairs = 16  // of a later copy
	readyByte     = 'R' // the byte that the server sends when it can receive
)

// queuePair is what a rocev2-learn program sends its peer.
type queuePair struct {
	QPN uint32   // queue pair number, 24 bits
	LID uint16   // 0 on RoCE
	GID [16]byte // raw, in network order
}

// packed is the message of an earlier copy.
var packed = peer.Packed[queuePair]{
	Program: "a rocev2-learn program", Order: binary.LittleEndian, Size: queuePairSize, QPN: func(m *queuePair) uint32 { return m.QPN },
}

// count returns how many queue pairs a later copy has, by the first bytes of its message.
// It is 0 for the message of an earlier copy.
func count(first []byte) int {
	if n := packed.Order.Uint32(first); n <= maxQueuePairs {
		return int(n)
	}
	return 0
}

// appendQueuePairs appends the message of a later copy to dst.
func appendQueuePairs(dst []byte, list []queuePair) ([]byte, error) {
	if len(list) < 1 || len(list) > maxQueuePairs {
		return nil, errors.Errorf("a rocev2-learn program cannot have %d queue pairs; try: 1 to %d", len(list), maxQueuePairs)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(list)))
	for _, m := range list {
		var err error
		if dst, err = packed.Append(dst, m); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// decodeQueuePairs reads the message of a later copy, which data holds alone. The error is
// a [*oob.ProtocolError].
func decodeQueuePairs(data []byte) (list []queuePair, err error) {
	n := 0
	if len(data) >= countSize {
		n = count(data)
	}
	if n == 0 || len(data) != countSize+n*queuePairSize {
		return nil, peer.Unexpected(packed.Program, data, fmt.Sprintf("%d bytes are not the message of %d queue pairs", len(data), n))
	}
	for data = data[countSize:]; len(data) > 0; data = data[queuePairSize:] {
		m, err := packed.Decode(data[:queuePairSize])
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// endpointOf returns the peer's endpoint. Values that the programs do not exchange are this
// end's, and the PSN is 0.
func (m queuePair) endpointOf(local oob.Endpoint) oob.Endpoint {
	return peer.Complete(local, oob.Endpoint{QPN: m.QPN, LID: m.LID, GID: m.GID})
}
