package packet

import (
	"bytes"
	"net/netip"
	"testing"
)

// assemble writes the fields back into a frame.
func assemble(t *testing.T, fields []Field, size int) []byte {
	t.Helper()
	out := make([]byte, size)
	at := 0
	for _, f := range fields {
		if f.Bit != at || f.Header == "" || f.Width <= 0 {
			t.Fatalf("field %+v begins at bit %d, want %d", f, f.Bit, at)
		}
		for i := range f.Width {
			bit := byte(0)
			if f.Width <= 64 {
				bit = byte(f.Value >> (f.Width - 1 - i) & 1)
			} else {
				bit = f.Bytes[i/8] >> (7 - i%8) & 1
			}
			out[(at+i)/8] |= bit << (7 - (at+i)%8)
		}
		at += f.Width
	}
	if at != 8*size {
		t.Fatalf("the fields have %d bits, want %d", at, 8*size)
	}
	return out
}

// TestFields builds a packet of each opcode, over IPv4 and IPv6, and makes the frame again of its
// fields.
func TestFields(t *testing.T) {
	for o := range 256 {
		opcode := Opcode(o)
		if !opcode.Known() {
			continue
		}
		n := map[payloadRule]int{noPayload: 0, upToMTU: 29, fullMTU: 256, oneWord: WordLen, cnpPayload: cnpLen}[opcodes[o].payload]
		buf := make([]byte, MaxPacket)
		p, err := Build(buf, opcode, n)
		if err != nil {
			t.Fatal(err)
		}
		for i := bthLen; i < len(p.Bytes()); i++ {
			p.Bytes()[i] = byte(i*37 + o)
		}
		for _, ends := range [][2]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
			frame, err := Frame{Src: netip.AddrPortFrom(netip.MustParseAddr(ends[0]), 50000), Dst: netip.AddrPortFrom(netip.MustParseAddr(ends[1]), Port), TOS: 3}.Append(nil, p.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			fields := Fields(frame)
			if got := assemble(t, fields, len(frame)); !bytes.Equal(got, frame) {
				t.Errorf("%v: the fields give %x, want %x", opcode, got, frame)
			}
			found := map[string]bool{}
			for _, f := range fields {
				found[f.Header] = true
				if f.Name == "ECN" {
					found[f.Meaning[:3]] = true
				}
				if f.About == "" {
					t.Errorf("%v: %s.%s has no description", opcode, f.Header, f.Name)
				}
			}
			if !found["CE:"] {
				t.Errorf("%v: no field says that the packet of %s is marked", opcode, ends[0])
			}
			for kind, name := range headerNames {
				if want := opcode.Has(1 << kind); found[name] != want {
					t.Errorf("%v: header %s: %v, want %v", opcode, name, found[name], want)
				}
			}
		}
	}
}

func TestFieldsOfRuins(t *testing.T) {
	whole, err := Frame{Src: netip.MustParseAddrPort("10.0.0.1:1"), Dst: netip.MustParseAddrPort("10.0.0.2:4791")}.Append(nil, bytes.Repeat([]byte{0xee}, 40))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= len(whole); n++ {
		frame := whole[:n]
		if got := assemble(t, Fields(frame), n); !bytes.Equal(got, frame) {
			t.Errorf("%d bytes: %x, want %x", n, got, frame)
		}
	}
}

func TestFieldMeanings(t *testing.T) {
	buf := make([]byte, MaxPacket)
	p, err := Build(buf, RCAcknowledge, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.AETH().Set(RNRSyndrome(12), 3)
	p.BTH().SetPSN(0x123456)
	frame, err := Frame{Src: netip.MustParseAddrPort("10.0.0.1:1"), Dst: netip.MustParseAddrPort("10.0.0.2:4791")}.Append(nil, p.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"OpCode": "RC_ACKNOWLEDGE", "Syndrome": "RNR NAK: no receive is posted; wait 640µs", "Source": "10.0.0.1"}
	for _, f := range Fields(frame) {
		if w, ok := want[f.Name]; ok && f.Meaning != w {
			t.Errorf("%s means %q, want %q", f.Name, f.Meaning, w)
		}
		if f.Name == "PSN" && (f.Value != 0x123456 || f.Bit != 8*(28+9)) {
			t.Errorf("PSN %#x at bit %d", f.Value, f.Bit)
		}
	}
}
