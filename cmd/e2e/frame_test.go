package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"testing"
)

// frame is an IPv4 packet of a capture. Its methods use the offsets of the specification
// and no code of softroce.
type frame []byte

const (
	ipHeader  = 20 // without options
	udpHeader = 8
	bthHeader = 12
	icrcSize  = 4
)

func (f frame) bth() []byte  { return f[ipHeader+udpHeader:] }
func (f frame) opcode() byte { return f.bth()[0] }
func (f frame) dest() uint32 { return binary.BigEndian.Uint32(f.bth()[4:]) & 0xffffff }
func (f frame) psn() uint32  { return binary.BigEndian.Uint32(f.bth()[8:]) & 0xffffff }
func (f frame) String() string {
	return fmt.Sprintf("%#02x to %#06x psn %#06x", f.opcode(), f.dest(), f.psn())
}

// icrc returns the invariant CRC of 8 bytes of ones, in place of InfiniBand's local header,
// and of the packet, with ones for the fields that change on the way.
func (f frame) icrc() uint32 {
	masked := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, f[:len(f)-icrcSize]...)
	ip := masked[8:]
	for _, changes := range [][]byte{
		ip[1:2],                         // type of service
		ip[8:9],                         // time to live
		ip[10:12],                       // checksum of the IP header
		ip[ipHeader+6 : ipHeader+8],     // checksum of UDP
		ip[ipHeader+udpHeader+4:][:1:1], // congestion bits of the BTH
	} {
		for i := range changes {
			changes[i] = 0xff
		}
	}
	return crc32.ChecksumIEEE(masked)
}

// isRoCE reports whether the frame is a RoCEv2 packet.
func (f frame) isRoCE() bool {
	return len(f) > ipHeader+udpHeader && f[0]>>4 == 4 && f[9] == 17 && binary.BigEndian.Uint16(f[ipHeader+2:]) == 4791
}

func (f frame) check() error {
	switch {
	case len(f) < ipHeader+udpHeader+bthHeader+icrcSize || f[0] != 0x45:
		return errors.New("not an IPv4 packet without options")
	case int(binary.BigEndian.Uint16(f[2:])) != len(f):
		return errors.New("the IP header has another length")
	case f[9] != 17 || binary.BigEndian.Uint16(f[ipHeader+2:]) != 4791:
		return errors.New("not UDP to port 4791")
	case int(binary.BigEndian.Uint16(f[ipHeader+4:])) != len(f)-ipHeader:
		return errors.New("the UDP header has another length")
	case binary.LittleEndian.Uint32(f[len(f)-icrcSize:]) != f.icrc():
		return fmt.Errorf("ICRC %x, computed %#08x", f[len(f)-icrcSize:], f.icrc())
	}
	return nil
}

// readCapture returns the RoCEv2 packets of a capture and checks each of them. In a capture
// of a soft device every packet must be RoCEv2; in an Ethernet capture only packets to UDP
// port 4791 are read.
func readCapture(t *testing.T, name string) (frames []frame) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const fileHeader, packetHeader = 24, 16
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(file[at:]) }
	if len(file) < fileHeader || field(0) != 0xa1b2c3d4 && field(0) != 0xa1b23c4d {
		t.Fatalf("%s is not a pcap file: % x", name, file[:min(len(file), fileHeader)])
	}
	const raw, ethernet = 101, 1
	linkType := field(20)
	linkHeader, ok := map[uint32]int{raw: 0, ethernet: 14}[linkType]
	if !ok {
		t.Fatalf("%s: link type %d", name, linkType)
	}
	file = file[fileHeader:]
	for i := 0; len(file) > 0; i++ {
		if len(file) < packetHeader || len(file)-packetHeader < int(field(8)) {
			t.Fatalf("%s: packet %d is cut short", name, i)
		}
		kept, length := int(field(8)), int(field(12))
		data := file[packetHeader:][:kept]
		file = file[packetHeader+kept:]
		f := frame(data[linkHeader:])
		if linkType == ethernet && !f.isRoCE() {
			continue
		}
		if err := f.check(); err != nil || length != kept {
			t.Fatalf("%s, packet %d: %v; length %d of %d: %x", name, i, err, kept, length, data)
		}
		frames = append(frames, f)
	}
	return frames
}

// Opcodes of the BTH.
const (
	sendOnly = 0x04
	ack      = 0x11
)
