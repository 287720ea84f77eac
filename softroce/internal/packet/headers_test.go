// Tests of the views against headers written byte by byte, and of PSN arithmetic and syndromes.

package packet

import (
	"bytes"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

func TestBTH(t *testing.T) {
	h := (*BTH)(unhex(t, "0a f0 1234 c0 abcdef 80 fedcba"))
	if h.Opcode() != RCWriteOnly || !h.Solicited() || !h.MigReq() || h.Pad() != 3 || h.TVer() != 0 ||
		h.PKey() != 0x1234 || !h.FECN() || !h.BECN() || h.DestQPN() != 0xabcdef || !h.AckReq() || h.PSN() != 0xfedcba {
		t.Errorf("the getters return wrong values for % x", *h)
	}
	h.SetSolicited(false)
	h.SetMigReq(false)
	h.SetPKey(0x8001)
	h.SetFECN(false)
	h.SetBECN(false)
	h.SetDestQPN(0xff000001) // the top byte is ignored
	h.SetAckReq(false)
	h.SetPSN(2)
	if want := unhex(t, "0a 30 8001 00 000001 00 000002"); !bytes.Equal(h[:], want) {
		t.Errorf("the setters wrote % x, want % x", *h, want)
	}
}

func TestExtendedHeaders(t *testing.T) {
	var reth RETH
	reth.Set(0x0102030405060708, 0x11121314, 0x21222324)
	checkBytes(t, "RETH", reth[:], "0102030405060708 11121314 21222324")
	var feth FETH
	feth.Set(verbs.FlushGlobal|verbs.FlushPersistent, verbs.FlushMR)
	checkBytes(t, "FETH", feth[:], "000000 13")
	feth = FETH{0xff, 0xff, 0xff, 0xd2} // reserved bits are ignored
	if feth.Type() != verbs.FlushPersistent || feth.Level() != verbs.FlushMR {
		t.Errorf("FETH: type %v, level %v", feth.Type(), feth.Level())
	}
	var atomic AtomicETH
	atomic.Set(0x0102030405060708, 0x11121314, 0x2122232425262728, 0x3132333435363738)
	checkBytes(t, "AtomicETH", atomic[:], "0102030405060708 11121314 2122232425262728 3132333435363738")
	var ack AtomicAckETH
	ack.Set(0x0102030405060708)
	checkBytes(t, "AtomicAckETH", ack[:], "0102030405060708")
	var imm ImmDt
	imm.Set(0x01020304)
	checkBytes(t, "ImmDt", imm[:], "01020304")
	var ieth IETH
	ieth.Set(0x01020304)
	checkBytes(t, "IETH", ieth[:], "01020304")
	var deth DETH
	deth.Set(0x80010000, 0xff123456)
	checkBytes(t, "DETH", deth[:], "80010000 00 123456")
	var aeth AETH
	aeth.Set(RNRSyndrome(14), 0xff123456)
	checkBytes(t, "AETH", aeth[:], "2e 123456")
}

func checkBytes(t *testing.T, name string, got []byte, want string) {
	t.Helper()
	if w := unhex(t, want); !bytes.Equal(got, w) {
		t.Errorf("%s: % x, want % x", name, got, w)
	}
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s     Syndrome
		kind  AckKind
		value uint8
	}{
		{SyndromeACK, KindACK, 31},
		{0x05, KindACK, 5},
		{RNRSyndrome(0), KindRNR, 0},
		{0x3f, KindRNR, 31},
		{0x40, KindReserved, 0},
		{NAKPSNSequence, KindNAK, 0},
		{NAKRemoteOperational, KindNAK, 3},
		{0xe0, KindReserved, 0},
	} {
		if c.s.Kind() != c.kind || c.s.Value() != c.value {
			t.Errorf("syndrome 0x%02x: kind %d, value %d; want %d, %d", uint8(c.s), c.s.Kind(), c.s.Value(), c.kind, c.value)
		}
	}
}

func TestPSN(t *testing.T) {
	const last = PSN(0xffffff)
	if last.Add(1) != 0 || PSN(0).Add(-1) != last || last.Add(3) != 2 || NewPSN(0x12abcdef) != 0xabcdef {
		t.Error("PSNs do not wrap at 24 bits")
	}
	for _, c := range []struct {
		p, q PSN
		want int
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, last, 1}, {last, 0, -1}, {5, last - 4, 10},
		{1<<23 - 1, 0, 1<<23 - 1}, {1 << 23, 0, -1 << 23}, {0, 1 << 23, -1 << 23},
	} {
		if got := c.p.Sub(c.q); got != c.want {
			t.Errorf("%#x - %#x = %d, want %d", uint32(c.p), uint32(c.q), got, c.want)
		}
		if c.p.Before(c.q) != (c.want < 0) {
			t.Errorf("%#x and %#x: before %v", uint32(c.p), uint32(c.q), c.p.Before(c.q))
		}
		if got := c.q.Add(c.want); got != c.p {
			t.Errorf("%#x + %d = %#x, want %#x", uint32(c.q), c.want, uint32(got), uint32(c.p))
		}
	}
}

func TestCarries(t *testing.T) {
	for o, fill := range map[Opcode]struct {
		set  func(Packet)
		want string
	}{
		RCAcknowledge:     {func(p Packet) { p.AETH().Set(RNRSyndrome(14), 1) }, "RNR NAK 1.28ms"},
		RCWriteOnly:       {func(p Packet) { p.RETH().Set(0x10, 0x20, 5) }, "VA 0x10, rkey 0x20, 5 bytes"},
		RCFetchAdd:        {func(p Packet) { p.AtomicETH().Set(0x10, 0x20, 1, 0) }, "VA 0x10, rkey 0x20"},
		RCSendOnlyWithInv: {func(p Packet) { p.IETH().Set(0x20) }, "rkey 0x20"},
		UDSendOnly:        {func(p Packet) { p.DETH().Set(0x11, 7) }, "Q_Key 0x11, from QP 0x000007"},
		RCSendOnly:        {func(Packet) {}, ""},
	} {
		p, err := Build(make([]byte, 256), o, 0)
		if err != nil {
			t.Fatal(err)
		}
		fill.set(p)
		if got := p.Carries(); got != fill.want {
			t.Errorf("%v carries %q, want %q", o, got, fill.want)
		}
	}
}
