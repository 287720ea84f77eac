// The format of the rocev2-learn programs: 22 bytes, packed, as they lie in the
// memory of a little-endian host, and one byte 'R' by which the server says that
// its receive is posted.
//
//	offset size field
//	     0    4 queue pair number
//	     4    2 LID
//	     6   16 GID, raw
//
// Both ends write, then read. There is no PSN and no MTU.

package rocev2learn

import (
	"encoding/binary"

	"github.com/rawverbs/rawverbs/internal/peer"
)

// The numbers of the rocev2-learn programs.
const (
	queuePairSize = 22  // bytes of their message
	readyByte     = 'R' // the byte that the server sends when it can receive
)

// queuePair is what a rocev2-learn program tells its peer.
type queuePair struct {
	QPN uint32   // queue pair number, 24 bits
	LID uint16   // 0 on RoCE
	GID [16]byte // raw, in network order
}

var packed = peer.Packed{Program: "a rocev2-learn program", Order: binary.LittleEndian, Size: queuePairSize}

// appendQueuePair appends the message to dst. It fails for a QPN of 0, or of more
// than 24 bits.
func appendQueuePair(dst []byte, m queuePair) ([]byte, error) {
	if err := peer.CheckQPN(m.QPN); err != nil {
		return nil, err
	}
	return packed.Append(dst, m)
}

// decodeQueuePair reads the message, which data holds alone. The error is a
// [*oob.ProtocolError] that says what the bytes look like.
func decodeQueuePair(data []byte) (queuePair, error) {
	var m queuePair
	if err := packed.Decode(data, &m); err != nil {
		return queuePair{}, err
	}
	if err := peer.CheckQPN(m.QPN); err != nil {
		return queuePair{}, peer.Unexpected(packed.Program, data, err.Error())
	}
	return m, nil
}
