// Fuzz tests in both directions: from bytes to a packet and back, and from fields to a packet
// and back.

package packet

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(unhex(f, g.packet))
	}
	files, err := filepath.Glob("testdata/opcodes-*.pcap")
	if err != nil || len(files) == 0 {
		f.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		for _, c := range readCapture(f, file) {
			f.Add(c.packet)
		}
	}
	v4, v6 := flow(f, "10.0.0.1:49152", "10.0.0.2:4791"), flow(f, "[fd00::1]:49152", "[fd00::2]:4791")
	f.Fuzz(func(t *testing.T, input []byte) {
		b := bytes.Clone(input) // Seal writes to it, and the input belongs to the fuzzer
		p, err := Parse(b)
		if err != nil {
			if _, ok := err.(ParseError); !ok {
				t.Fatalf("%v is not a ParseError", err)
			}
			return
		}
		if len(p.Bytes()) != Len(p.Opcode(), len(p.Payload())) || len(p.Bytes()) != len(b) || len(b) > MaxPacket {
			t.Fatalf("%v: packet of %d bytes, payload %d, datagram %d", p.Opcode(), len(p.Bytes()), len(p.Payload()), len(b))
		}
		for _, fl := range []Flow{v4, v6} {
			fl.Verify(b, 0)
			fl.Seal(b, 0x1234)
			if m, id := fl.Verify(b, uint16(len(b))); !m.OK() || fl == v4 && id != 0x1234 {
				t.Fatalf("Verify of a sealed packet: %v, ID %#x", m, id)
			}
		}
		// The setters do not write reserved bits and the pad.
		want := bytes.Clone(b)
		want[4] &= 0xc0
		want[8] &= 0x80
		if p.Opcode().Has(HasDETH) {
			want[bthLen+4] = 0
		}
		if p.Opcode().Has(HasFETH) {
			clear(want[bthLen : bthLen+3])
			want[bthLen+3] &= 0x3f
		}
		clear(want[p.Opcode().HeaderLen()+len(p.Payload()):])
		if got := rebuild(t, p); !bytes.Equal(got, want) {
			t.Fatalf("%v: rebuilt\n% x, want\n% x", p.Opcode(), got, want)
		}
	})
}

func FuzzBuild(f *testing.F) {
	f.Add(uint8(0x0b), uint16(0xffff), uint32(1), uint32(0xffffff), uint64(1<<40), uint64(2), uint64(3), uint32(4), uint8(0xff), []byte("hello"))
	f.Add(uint8(0x1c), uint16(0xffff), uint32(1), uint32(0), uint64(8), uint64(2), uint64(3), uint32(4), uint8(0x13), []byte(nil))
	f.Add(uint8(0x1d), uint16(0xffff), uint32(1), uint32(0), uint64(8), uint64(8), uint64(3), uint32(4), uint8(0), []byte("eight by"))
	f.Add(uint8(0x13), uint16(0x7fff), uint32(1), uint32(0), uint64(8), uint64(2), uint64(3), uint32(4), uint8(0), []byte(nil))
	f.Add(uint8(0x11), uint16(0xffff), uint32(1), uint32(9), uint64(0), uint64(0), uint64(0), uint32(0), uint8(1), []byte(nil))
	f.Add(uint8(0x65), uint16(0xffff), uint32(1), uint32(9), uint64(0), uint64(0), uint64(0), uint32(7), uint8(1), []byte("x"))
	f.Add(uint8(0x17), uint16(0xffff), uint32(1), uint32(9), uint64(0), uint64(0), uint64(0), uint32(7), uint8(1), []byte("xyz"))
	f.Fuzz(func(t *testing.T, op uint8, pkey uint16, qpn, psn uint32, va, x, y uint64, w uint32, bits uint8, payload []byte) {
		o := Opcode(op)
		buf := bytes.Repeat([]byte{0xee}, MaxPacket+4)
		p, err := Build(buf, o, len(payload))
		if err != nil {
			possible := o.Known() && len(payload) <= MaxPayload &&
				(len(payload) == 0 || opcodes[o].payload != noPayload) && o != CongestionNotification && o != RCAtomicWrite
			if possible {
				t.Fatalf("%v with %d bytes: %v", o, len(payload), err)
			}
			return
		}
		h := p.BTH()
		h.SetPKey(pkey)
		h.SetDestQPN(qpn)
		h.SetPSN(NewPSN(psn))
		h.SetSolicited(bits&1 != 0)
		h.SetMigReq(bits&2 != 0)
		h.SetFECN(bits&4 != 0)
		h.SetBECN(bits&8 != 0)
		h.SetAckReq(bits&16 != 0)
		// A header that the opcode does not have is nil. The others must not overlap.
		if e := p.DETH(); e != nil {
			e.Set(w, uint32(x))
		}
		if e := p.FETH(); e != nil {
			e.Set(verbs.FlushType(bits), verbs.FlushLevel(bits>>4))
		}
		if e := p.RETH(); e != nil {
			e.Set(va, w, uint32(x))
		}
		if e := p.AtomicETH(); e != nil {
			e.Set(va, w, x, y)
		}
		if e := p.AETH(); e != nil {
			e.Set(Syndrome(bits), uint32(y))
		}
		if e := p.AtomicAckETH(); e != nil {
			e.Set(x)
		}
		if e := p.ImmDt(); e != nil {
			e.Set(^w)
		}
		if e := p.IETH(); e != nil {
			e.Set(w)
		}
		copy(p.Payload(), payload)

		q, err := Parse(p.Bytes())
		if err != nil {
			t.Fatalf("%v with %d bytes: %v", o, len(payload), err)
		}
		g := q.BTH()
		const m24 = 1<<24 - 1
		if g.Opcode() != o || g.PKey() != pkey || g.DestQPN() != qpn&m24 || uint32(g.PSN()) != psn&m24 ||
			g.Solicited() != (bits&1 != 0) || g.MigReq() != (bits&2 != 0) || g.FECN() != (bits&4 != 0) ||
			g.BECN() != (bits&8 != 0) || g.AckReq() != (bits&16 != 0) || g.TVer() != 0 {
			t.Fatalf("BTH % x", *g)
		}
		if e := q.DETH(); (e != nil) != o.Has(HasDETH) || e != nil && (e.QKey() != w || e.SrcQPN() != uint32(x)&m24) {
			t.Fatalf("DETH %v", e)
		}
		if e := q.FETH(); (e != nil) != o.Has(HasFETH) || e != nil && (uint8(e.Type()) != bits&15 || uint8(e.Level()) != bits>>4&3) {
			t.Fatalf("FETH %v", e)
		}
		if e := q.RETH(); (e != nil) != o.Has(HasRETH) ||
			e != nil && (e.VA() != va || e.RKey() != w || e.DMALen() != uint32(x)) {
			t.Fatalf("RETH %v", e)
		}
		if e := q.AtomicETH(); (e != nil) != o.Has(HasAtomicETH) ||
			e != nil && (e.VA() != va || e.RKey() != w || e.SwapAdd() != x || e.Compare() != y) {
			t.Fatalf("AtomicETH %v", e)
		}
		if e := q.AETH(); (e != nil) != o.Has(HasAETH) ||
			e != nil && (e.Syndrome() != Syndrome(bits) || e.MSN() != uint32(y)&m24) {
			t.Fatalf("AETH %v", e)
		}
		if e := q.AtomicAckETH(); (e != nil) != o.Has(HasAtomicAckETH) || e != nil && e.Orig() != x {
			t.Fatalf("AtomicAckETH %v", e)
		}
		if e := q.ImmDt(); (e != nil) != o.Has(HasImmDt) || e != nil && e.Data() != ^w {
			t.Fatalf("ImmDt %v", e)
		}
		if e := q.IETH(); (e != nil) != o.Has(HasIETH) || e != nil && e.RKey() != w {
			t.Fatalf("IETH %v", e)
		}
		if !bytes.Equal(q.Payload(), payload) {
			t.Fatalf("payload % x, want % x", q.Payload(), payload)
		}
		if n := len(p.Bytes()); !bytes.Equal(buf[n:], bytes.Repeat([]byte{0xee}, len(buf)-n)) {
			t.Fatalf("bytes after the packet's %d bytes have changed", n)
		}
	})
}
