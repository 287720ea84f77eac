package oob

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

import "encoding/binary"

// The numbers of the rocev2-learn programs.
const (
	RoCEv2LearnSize  = 22  // bytes of their message
	RoCEv2LearnReady = 'R' // the byte that the server sends when it can receive
)

// RoCEv2Learn is what a rocev2-learn program tells its peer.
type RoCEv2Learn struct {
	QPN uint32   // queue pair number, 24 bits
	LID uint16   // 0 on RoCE
	GID [16]byte // raw, in network order
}

var roceV2Learn = packed{"a rocev2-learn program", binary.LittleEndian, RoCEv2LearnSize}

// AppendRoCEv2Learn appends the message to dst. It fails for a QPN of 0, or of more
// than 24 bits.
func AppendRoCEv2Learn(dst []byte, m RoCEv2Learn) ([]byte, error) {
	if err := checkQPN(m.QPN); err != nil {
		return nil, err
	}
	return roceV2Learn.append(dst, m)
}

// DecodeRoCEv2Learn reads the message, which data holds alone. The error is a
// [*ProtocolError] that says what the bytes look like.
func DecodeRoCEv2Learn(data []byte) (RoCEv2Learn, error) {
	var m RoCEv2Learn
	if err := roceV2Learn.decode(data, &m); err != nil {
		return RoCEv2Learn{}, err
	}
	if err := checkQPN(m.QPN); err != nil {
		return RoCEv2Learn{}, notOf(roceV2Learn.format, data, err.Error())
	}
	return m, nil
}
