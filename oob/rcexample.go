package oob

// The format of RDMA_RC_example, the program in the "RDMA Aware Networks
// Programming User Manual": 34 bytes, packed, big-endian, and sync messages of one
// byte whose value means nothing.
//
//	offset size field
//	     0    8 address of the buffer
//	     8    4 its rkey
//	    12    4 queue pair number
//	    16    2 LID
//	    18   16 GID, raw; all zero if the program was started without -g
//
// Both ends write, then read. There is no PSN, no MTU and no length: the ends agree
// on those by having been compiled from one source.

import "encoding/binary"

// RCExampleSize is the length of the message in bytes, RCExamplePort the TCP port
// that the program takes if none is given; RCExampleMTU its path MTU in bytes.
const (
	RCExampleSize = 34
	RCExamplePort = 19875
	RCExampleMTU  = 256
)

// RCExample is what RDMA_RC_example tells its peer.
type RCExample struct {
	Addr uint64
	RKey uint32
	QPN  uint32
	LID  uint16
	GID  [16]byte
}

var rcExample = packed{"RDMA_RC_example", binary.BigEndian, RCExampleSize}

// AppendRCExample appends the message to dst.
func AppendRCExample(dst []byte, m RCExample) ([]byte, error) {
	if err := checkQPN(m.QPN); err != nil {
		return nil, err
	}
	return rcExample.append(dst, m)
}

// DecodeRCExample reads the message, which data holds alone. The error is a
// [*ProtocolError] that says what the bytes look like.
func DecodeRCExample(data []byte) (RCExample, error) {
	var m RCExample
	if err := rcExample.decode(data, &m); err != nil {
		return RCExample{}, err
	}
	if err := checkQPN(m.QPN); err != nil {
		return RCExample{}, notOf(rcExample.format, data, err.Error())
	}
	return m, nil
}
