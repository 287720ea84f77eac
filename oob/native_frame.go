package oob

// The frame of the native protocol: twelve bytes of header before every body.
//
//	offset size field
//	     0    4 magic "RVO\n"
//	     4    1 version
//	     5    1 message type
//	     6    2 flags, zero
//	     8    4 length of the body in bytes, big-endian
//
// The header, and the error message, keep their layout in every version, so
// that two programs of different versions can report it to each other. Everything
// in a header is judged before a byte of the body is read or memory is set
// aside for it.

import (
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"
)

const (
	// Version of the native protocol. An end refuses every other.
	Version = 1

	// HeaderSize is the length of a frame's header in bytes.
	HeaderSize = 12

	// magic ends in a newline so that a peer which reads lines, such as an HTTP
	// server, takes it for a bad command and answers at once, instead of
	// waiting in silence for the end of the line.
	magic = "RVO\n"
)

// Limits of the bodies in bytes.
const (
	maxBody        = 4 << 10  // hello, endpoints, barrier, error
	maxRegionsBody = 16 << 10 // MaxRegions regions with the longest names
	maxNoteBody    = 64 << 10
)

// MessageType is the kind of a message of the native protocol.
type MessageType uint8

// The messages of version 1; docs/oob-protocol.md has their bytes.
const (
	TypeHello     MessageType = 1   // a Hello
	TypeEndpoints MessageType = 2   // a list of Endpoints
	TypeRegions   MessageType = 3   // a list of Regions, which may be empty
	TypeBarrier   MessageType = 4   // a barrier's name
	TypeNote      MessageType = 5   // a Note
	TypeError     MessageType = 255 // a PeerError: the sender's last message
)

// String gives the name used in errors and traces, such as "endpoints"; an
// unknown type prints its number.
func (t MessageType) String() string {
	switch t {
	case TypeHello:
		return "hello"
	case TypeEndpoints:
		return "endpoints"
	case TypeRegions:
		return "regions"
	case TypeBarrier:
		return "barrier"
	case TypeNote:
		return "note"
	case TypeError:
		return "error"
	}
	return fmt.Sprintf("MessageType(%d)", uint8(t))
}

// MaxBody is the longest body a message of this type may have, in bytes; 0
// for an unknown type.
func (t MessageType) MaxBody() int {
	switch t {
	case TypeHello, TypeEndpoints, TypeBarrier, TypeError:
		return maxBody
	case TypeRegions:
		return maxRegionsBody
	case TypeNote:
		return maxNoteBody
	}
	return 0
}

// Header is the first HeaderSize bytes of a frame.
type Header struct {
	Version uint8       // of the protocol
	Type    MessageType // of the body
	Length  int         // of the body, in bytes
}

// DecodeHeader reads the header at the start of frame and refuses all that
// this version does not know: a wrong magic, another version (unless the
// message is an error, which is readable in all versions), an unknown type, a
// flag, a body over the type's limit. The error is a [*ProtocolError].
func DecodeHeader(frame []byte) (Header, error) {
	if len(frame) < HeaderSize {
		return Header{}, &ProtocolError{
			Problem: fmt.Sprintf("%d bytes are too few for a header of %d", len(frame), HeaderSize),
		}
	}
	if string(frame[:4]) != magic {
		return Header{}, &ProtocolError{
			Problem: fmt.Sprintf("a message must start with %q, not %+q", magic, frame[:4]),
			Try:     trySameRelease,
		}
	}
	h := Header{Version: frame[4], Type: MessageType(frame[5])}
	flags := binary.BigEndian.Uint16(frame[6:])
	length := binary.BigEndian.Uint32(frame[8:])
	switch limit := h.Type.MaxBody(); {
	case h.Version != Version && h.Type != TypeError:
		return Header{}, &ProtocolError{
			Problem: fmt.Sprintf("the peer speaks version %d of the protocol, this end version %d", h.Version, Version),
			Try:     trySameRelease,
			Err:     ErrVersion,
		}
	case limit == 0:
		return Header{}, &ProtocolError{
			Problem: fmt.Sprintf("unknown message type %d", uint8(h.Type)),
			Try:     trySameRelease,
		}
	case flags != 0:
		return Header{}, &ProtocolError{
			Problem: fmt.Sprintf("reserved flags 0x%04x are set in a message of type %v", flags, h.Type),
			Try:     trySameRelease,
		}
	case uint64(length) > uint64(limit):
		return Header{}, &ProtocolError{
			Problem: fmt.Sprintf("a message of type %v announces %d bytes, the limit is %d", h.Type, length, limit),
			Try:     trySameRelease,
		}
	}
	h.Length = int(length)
	return h, nil
}

// beginFrame appends a header whose length endFrame fills in; start is where
// the frame begins in dst.
func beginFrame(dst []byte, t MessageType) (frame []byte, start int) {
	start = len(dst)
	dst = append(dst, magic...)
	dst = append(dst, Version, byte(t), 0, 0, 0, 0, 0, 0)
	return dst, start
}

// endFrame writes the body's length into the header.
func endFrame(dst []byte, start int) ([]byte, error) {
	length := len(dst) - start - HeaderSize
	t := MessageType(dst[start+5])
	if length > t.MaxBody() {
		return dst[:start], errors.Errorf("oob: cannot send this %v message: it has %d bytes, the limit is %d", t, length, t.MaxBody())
	}
	binary.BigEndian.PutUint32(dst[start+8:], uint32(length))
	return dst, nil
}

// openFrame gives the body of a frame that holds a message of type want and
// nothing after it.
func openFrame(frame []byte, want MessageType) ([]byte, error) {
	h, err := DecodeHeader(frame)
	if err != nil {
		return nil, err
	}
	body := frame[HeaderSize:]
	if h.Type != want {
		return nil, &ProtocolError{Problem: fmt.Sprintf("the message is of type %v, not %v", h.Type, want)}
	}
	if len(body) != h.Length {
		return nil, &ProtocolError{Problem: fmt.Sprintf("the header announces a body of %d bytes, there are %d", h.Length, len(body))}
	}
	return body, nil
}
