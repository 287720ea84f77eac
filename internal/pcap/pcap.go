// Package pcap writes IP packets to a pcap file for Wireshark and tcpdump, and reads captures.
//
// draft-ietf-opsawg-pcap describes the format. The file has a header of 24 bytes. Each
// packet follows a header of 16 bytes.
package pcap

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/pkg/errors"
)

const (
	magic       = 0xa1b23c4d // the variant with times in nanoseconds
	maxPacket   = 65535      // the length of the longest IPv4 packet
	linkTypeRaw = 101        // a packet begins with its IP header
)

// Writer writes packets to a pcap file. It is for one goroutine at a time.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter writes the file's header to w and returns a Writer for the packets.
func NewWriter(w io.Writer) (*Writer, error) {
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = append(b, 2, 0, 4, 0) // version 2.4
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint32(b, maxPacket)
	b = binary.LittleEndian.AppendUint32(b, linkTypeRaw)
	if _, err := w.Write(b); err != nil {
		return nil, errors.WithMessage(err, "pcap header")
	}
	return &Writer{w: w}, nil
}

// Packet writes one packet, which was seen at the time at, in one Write. The packet begins
// with its IP header and has at most 65535 bytes.
func (w *Writer) Packet(at time.Time, ip []byte) error {
	if len(ip) > maxPacket {
		return errors.Errorf("pcap packet of %d bytes: the limit is %d", len(ip), maxPacket)
	}
	b := binary.LittleEndian.AppendUint32(w.buf[:0], uint32(at.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(ip))) // in the file
	b = binary.LittleEndian.AppendUint32(b, uint32(len(ip))) // on the wire
	w.buf = append(b, ip...)
	if _, err := w.w.Write(w.buf); err != nil {
		return errors.WithMessage(err, "pcap packet")
	}
	return nil
}
