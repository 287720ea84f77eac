// Tests of the errors of Parse and Build, and of the layout of packets.

package packet

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	icrc := "00000000"
	for _, c := range []struct {
		name   string
		packet string
		want   error
	}{
		{"nothing", "", ErrTruncated},
		{"BTH without ICRC", "0400ffff 00000001 00000000", ErrTruncated},
		{"one byte short of an ICRC", "0400ffff 00000001 00000000 000000", ErrTruncated},
		{"SEND without payload", "0400ffff 00000001 00000000" + icrc, nil},
		{"version 1", "0401ffff 00000001 00000000" + icrc, ErrTVer},
		{"opcode 0x15", "1500ffff 00000001 00000000" + icrc, ErrOpcode},
		{"ACK without AETH", "1100ffff 00000001 00000000" + icrc, ErrTruncated},
		{"ACK", "1100ffff 00000001 00000000 1f000000" + icrc, nil},
		{"ACK with payload", "1100ffff 00000001 00000000 1f000000 00000000" + icrc, ErrPayload},
		{"pad without payload", "0410ffff 00000001 00000000" + icrc, ErrPad},
		{"pad of 3 in 4 bytes", "0430ffff 00000001 00000000 00000000" + icrc, nil},
		{"pad of 3 in 3 bytes", "0430ffff 00000001 00000000 000000" + icrc, ErrPad},
		{"5 bytes without pad", "0400ffff 00000001 00000000 0000000000" + icrc, ErrPad},
		{"CNP", "8100ffff 40000001 00000000 00000000 00000000 00000000 00000000" + icrc, nil},
		{"CNP without its reserved bytes", "8100ffff 40000001 00000000" + icrc, ErrPayload},
		{"reserved bits set", "0400ffff 3f000001 7f000000" + icrc, nil},
	} {
		bytes := unhex(t, c.packet)
		p, err := Parse(bytes)
		if !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if want := len(bytes) >= 16 && c.want != ErrTVer; p.HasBTH() != want || want && p.Opcode() != Opcode(bytes[0]) {
			t.Errorf("%s: has a BTH: %v, opcode %v", c.name, p.HasBTH(), p.Opcode())
		}
	}
	longest, err := Build(make([]byte, MaxPacket), RCWriteOnlyWithImm, MaxPayload)
	if err != nil || len(longest.Bytes()) != MaxPacket {
		t.Errorf("the longest packet: %d bytes, %v; want %d", len(longest.Bytes()), err, MaxPacket)
	}
	if _, err := Parse(longest.Bytes()); err != nil {
		t.Errorf("the longest packet: %v", err)
	}
	if _, err := Parse(append(longest.Bytes(), 0, 0, 0, 0)); !errors.Is(err, ErrPayload) {
		t.Errorf("one byte longer than the longest: %v, want %v", err, ErrPayload)
	}
}

func TestBuildRefuses(t *testing.T) {
	buf := make([]byte, MaxPacket+4)
	for _, c := range []struct {
		o       Opcode
		payload int
		room    int
		want    error
	}{
		{0x15, 0, len(buf), ErrOpcode},
		{RCAcknowledge, 1, len(buf), ErrPayload},
		{RCSendOnly, -1, len(buf), ErrPayload},
		{RCSendOnly, MaxPayload + 1, len(buf), ErrPayload},
		{RCSendOnly, 5, 23, ErrTruncated},
		{RCSendOnly, 5, 24, nil},
		{CongestionNotification, 0, len(buf), ErrPayload},
	} {
		if _, err := Build(buf[:c.room], c.o, c.payload); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%v with %d bytes in %d: %v, want %v", c.o, c.payload, c.room, err, c.want)
		}
	}
}

// TestBuildLeaves checks that Build writes the whole packet except the payload, and nothing
// around the packet.
func TestBuildLeaves(t *testing.T) {
	buf := bytes.Repeat([]byte{0xee}, 64)
	p, err := Build(buf, RCWriteOnlyWithImm, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(
		unhex(t, "0b30ffff 00000000 00000000"), make([]byte, 16+4),
		bytes.Repeat([]byte{0xee}, 5), make([]byte, 3+4),
		bytes.Repeat([]byte{0xee}, 64-44),
	)
	if !bytes.Equal(buf, want) {
		t.Errorf("built\n% x, want\n% x", buf, want)
	}
	if len(p.Bytes()) != 44 || cap(p.Bytes()) != 44 || len(p.Payload()) != 5 || cap(p.Payload()) != 5 {
		t.Errorf("packet %d (%d), payload %d (%d) bytes", len(p.Bytes()), cap(p.Bytes()), len(p.Payload()), cap(p.Payload()))
	}
	if Len(RCWriteOnlyWithImm, 5) != 44 {
		t.Errorf("Len %d, want 44", Len(RCWriteOnlyWithImm, 5))
	}
}

func TestPayloadFits(t *testing.T) {
	for _, c := range []struct {
		o       Opcode
		payload int
		want    bool
	}{
		{RCSendFirst, 1024, true}, {RCSendFirst, 1023, false}, {RCSendFirst, 2048, false}, {RCSendFirst, 0, false},
		{RCReadResponseMiddle, 1024, true}, {UCWriteMiddle, 512, false},
		{RCSendLast, 1, true}, {RCSendLast, 1024, true}, {RCSendLast, 0, false}, {RCSendLast, 1025, false},
		{RCSendOnly, 0, true}, {RCSendOnly, 1024, true}, {UDSendOnly, 1025, false},
		{RCAcknowledge, 0, true}, {CongestionNotification, 16, true},
	} {
		p, err := Build(make([]byte, MaxPacket), c.o, c.payload)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.PayloadFits(1024); got != c.want {
			t.Errorf("%v with %d bytes in 1024: %v", c.o, c.payload, got)
		}
	}
}
