// Tests with packets whose ICRC is known, and against a second implementation of the ICRC.

package packet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"
)

// golden are packets with a known ICRC. rxe accepted the first two. The third is from scapy's
// test/contrib/roce.uts. The last was written by hand: only the second implementation checks
// its ICRC, because rxe computes a wrong ICRC for FLUSH.
var golden = []struct {
	name     string
	src, dst string
	id       uint16
	packet   string // BTH to ICRC
	match    Match  // result of Verify if another identification is expected
}{
	{
		name: "rxe IPv6", src: "[fd00::1]:56136", dst: "[fd00::2]:4791",
		packet: "1100ffff 00000123 00000000 1f000001 77fa3b88", match: MatchExact,
	},
	{
		name: "rxe IPv4", src: "10.9.0.1:54099", dst: "10.9.0.2:4791", id: 6080,
		packet: "1100ffff 00000123 00000000 1f000001 3bae61d9", match: Match16,
	},
	{
		name: "scapy CNP", src: "10.0.17.1:0", dst: "10.0.18.1:4791", id: 0x718c,
		packet: "8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 82fd002a", match: Match16,
	},
	{
		name: "FLUSH", src: "[fd99::2]:4791", dst: "[fd99::1]:4791",
		packet: "1c00ffff 00000011 80000007 00000001 00003f2d30272010 00000204 000003e8 c99cf9c2", match: MatchExact,
	},
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			b := unhex(t, g.packet)
			f := flow(t, g.src, g.dst)
			p, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			want := binary.LittleEndian.Uint32(b[len(b)-4:])
			if got := f.ICRC(b, g.id); got != want {
				t.Errorf("ICRC %08x, want %08x", got, want)
			}
			if m, id := f.Verify(b, 0); m != g.match || id != g.id {
				t.Errorf("Verify: %v, ID %d; want %v, ID %d", m, id, g.match, g.id)
			}
			if m, id := f.Verify(b, g.id); m != MatchExact || id != g.id {
				t.Errorf("Verify with the right ID expected: %v, ID %d", m, id)
			}
			if _, got := FrameICRC(frame(t, g.src, g.dst, g.id, b)); got != want {
				t.Errorf("ICRC of the whole frame %08x, want %08x", got, want)
			}
			again := bytes.Clone(b)
			clear(again[len(again)-4:])
			f.Seal(again, g.id)
			if !bytes.Equal(again, b) {
				t.Errorf("sealed % x, want % x", again, b)
			}
			if got := rebuild(t, p); !bytes.Equal(got[:len(got)-4], b[:len(b)-4]) {
				t.Errorf("rebuilt % x, want % x", got, b)
			}
		})
	}
}

// rebuild builds p again with Build and the setters. The ICRC stays 0.
func rebuild(t testing.TB, p Packet) []byte {
	t.Helper()
	q, err := Build(make([]byte, len(p.Bytes())), p.Opcode(), len(p.Payload()))
	if err != nil {
		t.Fatalf("cannot build %v with %d bytes again: %v", p.Opcode(), len(p.Payload()), err)
	}
	b, h := p.BTH(), q.BTH()
	h.SetSolicited(b.Solicited())
	h.SetMigReq(b.MigReq())
	h.SetPKey(b.PKey())
	h.SetFECN(b.FECN())
	h.SetBECN(b.BECN())
	h.SetDestQPN(b.DestQPN())
	h.SetAckReq(b.AckReq())
	h.SetPSN(b.PSN())
	if e := p.DETH(); e != nil {
		q.DETH().Set(e.QKey(), e.SrcQPN())
	}
	if e := p.FETH(); e != nil {
		q.FETH().Set(e.Type(), e.Level())
	}
	if e := p.RETH(); e != nil {
		q.RETH().Set(e.VA(), e.RKey(), e.DMALen())
	}
	if e := p.AtomicETH(); e != nil {
		q.AtomicETH().Set(e.VA(), e.RKey(), e.SwapAdd(), e.Compare())
	}
	if e := p.AETH(); e != nil {
		q.AETH().Set(e.Syndrome(), e.MSN())
	}
	if e := p.AtomicAckETH(); e != nil {
		q.AtomicAckETH().Set(e.Orig())
	}
	if e := p.ImmDt(); e != nil {
		q.ImmDt().Set(e.Data())
	}
	if e := p.IETH(); e != nil {
		q.IETH().Set(e.RKey())
	}
	copy(q.Payload(), p.Payload())
	return q.Bytes()
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func flow(t testing.TB, src, dst string) Flow {
	t.Helper()
	f, err := NewFlow(netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func frame(t testing.TB, src, dst string, id uint16, packet []byte) []byte {
	t.Helper()
	b, err := Frame{Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), ID: id}.Append(nil, packet)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
