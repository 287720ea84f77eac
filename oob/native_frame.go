package oob

// The frame of the native protocol: a header of twelve bytes, then the body.
//
//	offset size field
//	     0    4 magic "RVO\n"
//	     4    1 version
//	     5    1 message type
//	     6    2 flags, zero
//	     8    4 length of the body in bytes, big-endian
//
// The header and the error message have the same layout in every version, so that two
// programs of different versions can report the difference to each other. The receiver
// checks the whole header before it allocates memory for the body or reads the body.

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"
)

const (
	// version is the version of the native protocol. Other versions are refused.
	version = 1

	// HeaderSize is the size of a frame's header in bytes.
	HeaderSize = 12

	// magic ends in a newline. A peer that reads lines, such as an HTTP server,
	// therefore answers "bad command" at once instead of waiting for the line's end.
	magic = "RVO\n"
)

// Limits of the bodies in bytes.
const (
	maxBody        = 4 << 10  // hello, endpoints, barrier, error
	maxRegionsBody = 16 << 10 // MaxRegions regions with the longest names
	maxNoteBody    = 64 << 10
)

// MessageType is the type of a native message.
type MessageType uint8

// The message types of version 1; docs/oob-protocol.md describes their bytes.
const (
	TypeHello     MessageType = 1   // a Hello
	TypeEndpoints MessageType = 2   // a list of Endpoints
	TypeRegions   MessageType = 3   // a list of Regions, which may be empty
	TypeBarrier   MessageType = 4   // a barrier's name
	TypeNote      MessageType = 5   // a Note
	TypeError     MessageType = 255 // a PeerError, the sender's last message
)

// messageTypes has the name of each type, and the maximum size of its body in bytes.
var messageTypes = map[MessageType]struct {
	name    string
	maxBody int
}{
	TypeHello: {"hello", maxBody}, TypeEndpoints: {"endpoints", maxBody}, TypeBarrier: {"barrier", maxBody}, TypeError: {"error", maxBody},
	TypeRegions: {"regions", maxRegionsBody}, TypeNote: {"note", maxNoteBody},
}

// String returns the name in errors and traces, such as "endpoints", or the number of an
// unknown type.
func (t MessageType) String() string {
	return cmp.Or(messageTypes[t].name, fmt.Sprintf("MessageType(%d)", uint8(t)))
}

// maxBody returns the maximum size of a body of this type in bytes, or 0 for an unknown
// type.
func (t MessageType) maxBody() int { return messageTypes[t].maxBody }

// header is the first HeaderSize bytes of a frame.
type header struct {
	Version uint8       // protocol version
	Type    MessageType // type of the body
	Length  int         // size of the body in bytes
}

// decodeHeader decodes the header at the start of frame. It refuses a wrong magic, an
// unknown type, a set flag, and a body over the type's limit. It also refuses another
// version, except for an error message, which every version can read. The error is a
// [*ProtocolError].
func decodeHeader(frame []byte) (header, error) {
	if len(frame) < HeaderSize {
		return header{}, &ProtocolError{
			Problem: fmt.Sprintf("%d bytes are too few for a header of %d", len(frame), HeaderSize),
		}
	}
	if string(frame[:4]) != magic {
		return header{}, &ProtocolError{
			Problem: fmt.Sprintf("a message must start with %q, not %+q", magic, frame[:4]),
			Try:     trySameRelease,
		}
	}
	h := header{Version: frame[4], Type: MessageType(frame[5])}
	flags := binary.BigEndian.Uint16(frame[6:])
	length := binary.BigEndian.Uint32(frame[8:])
	switch limit := h.Type.maxBody(); {
	case h.Version != version && h.Type != TypeError:
		return header{}, &ProtocolError{
			Problem: fmt.Sprintf("the peer speaks version %d of the protocol, this end version %d", h.Version, version),
			Try:     trySameRelease,
			Err:     ErrVersion,
		}
	case limit == 0:
		return header{}, &ProtocolError{
			Problem: fmt.Sprintf("unknown message type %d", uint8(h.Type)),
			Try:     trySameRelease,
		}
	case flags != 0:
		return header{}, &ProtocolError{
			Problem: fmt.Sprintf("reserved flags 0x%04x are set in a message of type %v", flags, h.Type),
			Try:     trySameRelease,
		}
	case uint64(length) > uint64(limit):
		return header{}, &ProtocolError{
			Problem: fmt.Sprintf("a message of type %v announces %d bytes, the limit is %d", h.Type, length, limit),
			Try:     trySameRelease,
		}
	}
	h.Length = int(length)
	return h, nil
}

// beginFrame appends a header to dst; endFrame fills in its length. start is the offset
// of the frame in dst.
func beginFrame(dst []byte, t MessageType) (frame []byte, start int) {
	start = len(dst)
	dst = append(dst, magic...)
	dst = append(dst, version, byte(t), 0, 0, 0, 0, 0, 0)
	return dst, start
}

// endFrame writes the body's length into the header.
func endFrame(dst []byte, start int) ([]byte, error) {
	length := len(dst) - start - HeaderSize
	t := MessageType(dst[start+5])
	if length > t.maxBody() {
		return dst[:start], errors.Errorf("oob: cannot send this %v message: it has %d bytes, the limit is %d", t, length, t.maxBody())
	}
	binary.BigEndian.PutUint32(dst[start+8:], uint32(length))
	return dst, nil
}
