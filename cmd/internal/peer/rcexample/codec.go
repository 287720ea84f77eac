// The format of RDMA_RC_example, the program in the "RDMA Aware Networks Programming User
// Manual": 34 bytes, packed, big-endian; and sync messages of one byte whose value has no
// meaning.
//
//	offset size field
//	     0    8 address of the buffer
//	     8    4 its rkey
//	    12    4 queue pair number
//	    16    2 LID
//	    18   16 GID, raw; all zero if the program was started without -g
//
// Both ends write, then read. There is no PSN, no MTU and no length: both ends must be compiled
// from the same source.

package rcexample

import (
	"encoding/binary"

	"github.com/rawverbs/rawverbs/cmd/internal/peer"
)

// The numbers of RDMA_RC_example.
const (
	messageSize = 34    // bytes of its message
	defaultPort = 19875 // its default TCP port
	pathMTU     = 256   // its path MTU in bytes
)

// message is what RDMA_RC_example sends its peer.
type message struct {
	Addr uint64   // of its buffer
	RKey uint32   // of its buffer, whose length is not exchanged
	QPN  uint32   // queue pair number, 24 bits
	LID  uint16   // 0 on RoCE
	GID  [16]byte // raw, in network order; all zero if the program was started without -g
}

var packed = peer.Packed[message]{
	Program: "RDMA_RC_example", Order: binary.BigEndian, Size: messageSize, QPN: func(m *message) uint32 { return m.QPN },
}
