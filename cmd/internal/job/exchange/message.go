// The messages of the jobs exchange-write and exchange-read. Each is 40 bytes:
//
//	offset  bytes  what
//	     0      4  "RVX1": these messages, version 1
//	     4      1  1 is MSG_MR, 2 is MSG_DONE
//	     5      3  0
//	     8      8  MSG_MR: address of the sender's region; MSG_DONE: 0
//	    16      4  MSG_MR: its rkey; MSG_DONE: 0
//	    20      4  CRC-32C (Castagnoli) of the text
//	    24      8  MSG_MR: the region's length in bytes; MSG_DONE: 0
//	    32      8  length of the text in bytes
//
// Numbers are in network order. In MSG_MR, the text is at the beginning of the sender's region,
// for the peer to READ. The text is empty if the peer is to WRITE to the region. In MSG_DONE,
// the text is the one that the sender has written or read.
//
// C programs send their struct ibv_mr as it lies in memory. That works between two builds
// of one program, but it shows this end's pointers to the peer, and nothing notices when a
// field moves.

package exchange

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/pkg/errors"
)

// messageSize is the length of every message. A receive has room for more, so that a
// longer message is noticed.
const (
	messageSize = 40
	messageRoom = 64
)

const messageMagic = "RVX1"

type messageType uint8

const (
	msgMR   messageType = 1
	msgDone messageType = 2
)

func (t messageType) String() string {
	switch t {
	case msgMR:
		return "MSG_MR"
	case msgDone:
		return "MSG_DONE"
	}
	return fmt.Sprintf("message type %d", uint8(t))
}

// message is a MSG_MR or a MSG_DONE.
type message struct {
	Type   messageType
	Addr   uint64 // only in MSG_MR, like RKey and Length
	RKey   uint32
	Length uint64 // of the region
	Text   digest
}

// digest has the length and the checksum of a text.
type digest struct {
	Bytes uint64
	CRC   uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func digestOf(text []byte) digest {
	return digest{uint64(len(text)), crc32.Checksum(text, castagnoli)}
}

func (d digest) String() string { return fmt.Sprintf("%d bytes of CRC-32C %#08x", d.Bytes, d.CRC) }

func (m message) appendTo(b []byte) []byte {
	b = append(b, messageMagic...)
	b = append(b, byte(m.Type), 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, m.Addr)
	b = binary.BigEndian.AppendUint32(b, m.RKey)
	b = binary.BigEndian.AppendUint32(b, m.Text.CRC)
	b = binary.BigEndian.AppendUint64(b, m.Length)
	return binary.BigEndian.AppendUint64(b, m.Text.Bytes)
}

// readMessage reads a message from a peer that is not trusted. For a message that it
// accepts, appendTo writes the same bytes. The region ends within the address space, and
// the text within the region.
func readMessage(b []byte) (m message, err error) {
	if len(b) != messageSize {
		return m, badMessage("it has %d bytes, but a message has %d", len(b), messageSize)
	}
	if string(b[:4]) != messageMagic {
		return m, badMessage("it begins with %q, but a message with %q", b[:4], messageMagic)
	}
	m = message{
		Type: messageType(b[4]),
		Addr: binary.BigEndian.Uint64(b[8:]), RKey: binary.BigEndian.Uint32(b[16:]), Length: binary.BigEndian.Uint64(b[24:]),
		Text: digest{binary.BigEndian.Uint64(b[32:]), binary.BigEndian.Uint32(b[20:])},
	}
	switch {
	case b[5]|b[6]|b[7] != 0:
		return m, badMessage("bytes 5 to 7 are not 0")
	case m.Type != msgMR && m.Type != msgDone:
		return m, badMessage("%v is neither MSG_MR (1) nor MSG_DONE (2)", m.Type)
	case m.Type == msgDone && (m.Addr != 0 || m.RKey != 0 || m.Length != 0):
		return m, badMessage("a MSG_DONE names a region")
	case m.Type == msgMR && m.Length > math.MaxUint64-m.Addr:
		return m, badMessage("a region of %d bytes at %#x goes beyond the last address", m.Length, m.Addr)
	case m.Type == msgMR && m.Text.Bytes > m.Length:
		return m, badMessage("a text of %d bytes lies in a region of %d", m.Text.Bytes, m.Length)
	}
	return m, nil
}

func badMessage(format string, args ...any) error {
	return errors.Errorf("the peer's SEND is not a message of this job: "+format+"; try: a peer of this program's version", args...)
}
