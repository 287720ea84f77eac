// Reading captures: pcap files of both byte orders and both units of time, and pcapng files, as
// tcpdump, dumpcap, Wireshark, QEMU and this package write them.

package pcap

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"

	"github.com/pkg/errors"
)

// Packet is a packet of a capture.
type Packet struct {
	At     time.Time // UTC
	IP     []byte    // from the IP header on; nil if the frame carries no IP packet
	Length int       // of the whole frame on the wire; the capture may have less of it
}

// Reader reads the packets of a capture. It is for one goroutine at a time.
type Reader struct {
	r      *bufio.Reader
	ng     bool
	order  binary.ByteOrder
	number int       // packets read so far
	links  []network // of the interfaces; a pcap file has one
	buf    []byte
}

// network is what a file says about an interface.
type network struct {
	link uint32
	unit time.Duration // of its times; 0: less than a nanosecond
	per  uint64        // units per second, if unit is 0
}

// The first four bytes of a file, in the order of the machine that wrote it.
const (
	magicMicro = 0xa1b2c3d4
	magicNano  = magic
	magicNG    = 0x0a0d0d0a // the type of a pcapng file's first block, the same in both orders
)

// maxFrame is the largest frame or block that is read. tcpdump's limit for frames is 256 KiB.
const maxFrame = 1 << 20

// ErrFormat is the error of a file that is not a capture.
var ErrFormat = errors.New("not a capture; try: a pcap or pcapng file, such as rdma_client --pcap, tcpdump -w or Wireshark writes")

// NewReader reads the header of a capture. The error is ErrFormat for a file of another kind.
func NewReader(r io.Reader) (*Reader, error) {
	c := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	first, err := c.r.Peek(4)
	if err != nil {
		return nil, ErrFormat
	}
	c.order = binary.LittleEndian
	if n := binary.BigEndian.Uint32(first); n == magicMicro || n == magicNano {
		c.order = binary.BigEndian
	}
	switch c.order.Uint32(first) {
	case magicNG:
		c.ng = true
		return c, nil
	case magicMicro, magicNano:
	default:
		return nil, ErrFormat
	}
	header, err := c.take(24)
	if err != nil {
		return nil, errors.WithMessage(err, "the header of the capture")
	}
	if major := c.order.Uint16(header[4:]); major != 2 {
		return nil, errors.Errorf("the capture is of version %d of pcap, and this program reads version 2", major)
	}
	n := network{link: c.order.Uint32(header[20:]) & 0x0fffffff, unit: time.Microsecond}
	if c.order.Uint32(header) == magicNano {
		n.unit = time.Nanosecond
	}
	c.links = []network{n}
	return c, c.known(n.link)
}

// Next returns the next packet. Its IP is valid until the next call. The error is io.EOF at the
// end of the file, and matches io.ErrUnexpectedEOF if the file ends within a packet.
func (c *Reader) Next() (Packet, error) {
	if c.ng {
		return c.nextNG()
	}
	if _, err := c.r.Peek(1); err != nil {
		return Packet{}, err
	}
	header, err := c.take(16)
	if err != nil {
		return Packet{}, err
	}
	n := c.links[0]
	at := time.Unix(int64(c.order.Uint32(header)), 0).UTC().Add(time.Duration(c.order.Uint32(header[4:])) * n.unit)
	kept, length := c.order.Uint32(header[8:]), c.order.Uint32(header[12:])
	frame, err := c.take(kept)
	if err != nil {
		return Packet{}, err
	}
	c.number++
	return Packet{At: at, IP: ipOf(n.link, frame), Length: int(length)}, nil
}

// take reads n bytes, which are valid until the next take.
func (c *Reader) take(n uint32) ([]byte, error) {
	if n > maxFrame {
		return nil, errors.Errorf("packet %d has %d bytes, and %d are the limit; the file is damaged", c.number+1, n, maxFrame)
	}
	if int(n) > cap(c.buf) {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	if _, err := io.ReadFull(c.r, c.buf); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.WithMessagef(io.ErrUnexpectedEOF, "the capture ends within packet %d; it was cut", c.number+1)
		}
		return nil, err
	}
	return c.buf, nil
}

// The link types whose frames may carry IP packets.
const (
	linkNull     = 0   // 4 bytes: the address family, in the order of the machine
	linkEthernet = 1   // 14 bytes, and 4 for each VLAN
	linkRawBSD   = 12  // an IP packet
	linkLoop     = 108 // as linkNull
	linkSLL      = 113 // 16 bytes: tcpdump -i any
	linkIPv4     = 228
	linkIPv6     = 229
	linkSLL2     = 276 // 20 bytes: tcpdump -i any, newer
)

func (c *Reader) known(link uint32) error {
	switch link {
	case linkNull, linkEthernet, linkRawBSD, linkTypeRaw, linkLoop, linkSLL, linkIPv4, linkIPv6, linkSLL2:
		return nil
	}
	return errors.Errorf("the frames of the capture have the link type %d, which may not carry IP; try: a capture of a network interface", link)
}

// ipOf returns the IP packet in a frame, or nil if the frame carries another protocol.
func ipOf(link uint32, frame []byte) []byte {
	const etherIPv4, etherIPv6, etherVLAN, etherQinQ = 0x0800, 0x86dd, 0x8100, 0x88a8
	skip, ether := 0, -1
	switch link {
	case linkNull, linkLoop:
		skip = 4
	case linkEthernet:
		skip, ether = 14, 12
	case linkSLL:
		skip, ether = 16, 14
	case linkSLL2:
		skip, ether = 20, 0
	}
	for {
		if len(frame) <= skip {
			return nil
		}
		if ether < 0 {
			return frame[skip:]
		}
		switch binary.BigEndian.Uint16(frame[ether:]) {
		case etherIPv4, etherIPv6:
			return frame[skip:]
		case etherVLAN, etherQinQ:
			ether = skip + 2
			skip += 4
		default:
			return nil
		}
	}
}
