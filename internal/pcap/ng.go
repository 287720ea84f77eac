// The blocks of a pcapng file.

package pcap

import (
	"encoding/binary"
	"io"
	"math/bits"
	"time"

	"github.com/pkg/errors"
)

// The types of blocks that are read. Others are skipped.
const (
	blockInterface = 1
	blockSimple    = 3 // a packet without a time
	blockEnhanced  = 6 // a packet
	blockSection   = magicNG
)

const byteOrderMagic = 0x1a2b3c4d

// maxInterfaces is how many interfaces a section may have.
const maxInterfaces = 1024

// nextNG returns the next packet of a pcapng file.
func (c *Reader) nextNG() (Packet, error) {
	for {
		kind, body, err := c.block()
		if err != nil {
			return Packet{}, err
		}
		switch kind {
		case blockInterface:
			if err := c.addInterface(body); err != nil {
				return Packet{}, err
			}
		case blockEnhanced:
			if len(body) < 20 {
				return Packet{}, c.damaged("is too short")
			}
			number, kept := c.order.Uint32(body), c.order.Uint32(body[12:])
			if number >= uint32(len(c.links)) || kept > uint32(len(body)-20) {
				return Packet{}, c.damaged("contradicts itself")
			}
			n := c.links[number]
			ticks := uint64(c.order.Uint32(body[4:]))<<32 | uint64(c.order.Uint32(body[8:]))
			c.number++
			return Packet{At: n.time(ticks), IP: ipOf(n.link, body[20:20+kept]), Length: int(c.order.Uint32(body[16:]))}, nil
		case blockSimple:
			return Packet{}, errors.New("the capture has packets without times, so they cannot be placed in the run; try: a capture of tcpdump or dumpcap")
		}
	}
}

// block reads a block. The body is valid until the next one.
func (c *Reader) block() (kind uint32, body []byte, err error) {
	if _, err := c.r.Peek(1); err != nil {
		return 0, nil, err
	}
	header, err := c.take(8)
	if err != nil {
		return 0, nil, err
	}
	if binary.LittleEndian.Uint32(header) == blockSection {
		// The section has its own byte order, which follows its length.
		order, err := c.r.Peek(4)
		if err != nil {
			return 0, nil, errors.WithMessage(io.ErrUnexpectedEOF, "the capture ends within the header of a section; it was cut")
		}
		switch uint32(byteOrderMagic) {
		case binary.LittleEndian.Uint32(order):
			c.order = binary.LittleEndian
		case binary.BigEndian.Uint32(order):
			c.order = binary.BigEndian
		default:
			return 0, nil, ErrFormat
		}
		c.links = nil
	}
	kind = c.order.Uint32(header)
	length := c.order.Uint32(header[4:])
	if length < 12 || length%4 != 0 {
		return 0, nil, c.damaged("has a length that no block has")
	}
	if body, err = c.take(length - 8); err != nil {
		return 0, nil, err
	}
	if last := len(body) - 4; c.order.Uint32(body[last:]) == length {
		return kind, body[:last], nil
	}
	return 0, nil, c.damaged("has two lengths")
}

func (c *Reader) damaged(why string) error {
	return errors.Errorf("the block after packet %d %s; the capture is damaged", c.number, why)
}

// addInterface reads the description of an interface: its link type, and the unit of its times.
func (c *Reader) addInterface(body []byte) error {
	if len(body) < 8 || len(c.links) >= maxInterfaces {
		return c.damaged("describes an interface that cannot be")
	}
	n := network{link: uint32(c.order.Uint16(body)), unit: time.Microsecond}
	const endOfOptions, timeResolution = 0, 9
	for options := body[8:]; len(options) >= 4; {
		code, length := c.order.Uint16(options), int(c.order.Uint16(options[2:]))
		padded := (length + 3) &^ 3
		if code == endOfOptions || padded > len(options)-4 {
			break
		}
		if code == timeResolution && length == 1 {
			if err := n.resolution(options[4]); err != nil {
				return err
			}
		}
		options = options[4+padded:]
	}
	c.links = append(c.links, n)
	return c.known(n.link)
}

// resolution sets the unit of times: a power of ten, or of two if the highest bit is set.
func (n *network) resolution(code byte) error {
	base, power := uint64(10), code&0x7f
	if code&0x80 != 0 {
		base = 2
	}
	per := uint64(1)
	for range power {
		high, low := bits.Mul64(per, base)
		if high != 0 {
			return errors.Errorf("the capture's unit of time is %d to the power of -%d seconds, which is too small", base, power)
		}
		per = low
	}
	n.unit, n.per = 0, per
	if per <= uint64(time.Second) && uint64(time.Second)%per == 0 {
		n.unit = time.Second / time.Duration(per)
	}
	return nil
}

// time returns a moment, given in the interface's unit since 1970.
func (n *network) time(ticks uint64) time.Time {
	if n.unit != 0 {
		per := uint64(time.Second / n.unit)
		return time.Unix(int64(ticks/per), int64(ticks%per)*int64(n.unit)).UTC()
	}
	high, low := bits.Mul64(ticks%n.per, uint64(time.Second))
	nanos, _ := bits.Div64(high, low, n.per)
	return time.Unix(int64(ticks/n.per), int64(nanos)).UTC()
}
