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

// The numbers of RDMA_RC_example.
const (
	RCExampleSize = 34    // bytes of its message
	RCExamplePort = 19875 // the TCP port that it takes if none is given
	RCExampleMTU  = 256   // its path MTU in bytes
)

// RCExample is what RDMA_RC_example tells its peer.
type RCExample struct {
	Addr uint64   // of its buffer
	RKey uint32   // of its buffer, whose length is not told
	QPN  uint32   // queue pair number, 24 bits
	LID  uint16   // 0 on RoCE
	GID  [16]byte // raw, in network order; all zero if the program was started without -g
}

var rcExample = packed{"RDMA_RC_example", binary.BigEndian, RCExampleSize}

// AppendRCExample appends the message to dst. It fails for a QPN of 0, or of more
// than 24 bits.
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
