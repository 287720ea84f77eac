// Benchmarks, and a test that nothing allocates.

package packet

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

var benchSizes = []int{64, 1024, 4096}

// benchPacket returns a sealed SEND ONLY over IPv4.
func benchPacket(b testing.TB, payload int, id uint16) (Flow, []byte) {
	f := flow(b, "10.0.0.1:49152", "10.0.0.2:4791")
	packet := randomPacket(rand.New(rand.NewPCG(1, 1)), RCSendOnly, payload)
	f.Seal(packet, id)
	return f, packet
}

// sink keeps the compiler from removing what is measured.
var sink uint64

func TestNoAllocations(t *testing.T) {
	f, packet := benchPacket(t, 1024, 0x4321)
	src, dst := netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791")
	src6, dst6 := netip.MustParseAddrPort("[fd00::1]:49152"), netip.MustParseAddrPort("[fd00::2]:4791")
	buf := make([]byte, MaxPacket)
	room := make([]byte, 0, MaxPacket+IPv6Len+UDPLen)
	for name, do := range map[string]func(){
		"Parse": func() {
			p, err := Parse(packet)
			if err != nil {
				panic(err)
			}
			sink += uint64(p.BTH().PSN()) + uint64(len(p.Payload()))
		},
		"Parse, refused": func() {
			if _, err := Parse(packet[:17]); err != ErrPad {
				panic(err)
			}
		},
		"Build": func() {
			p, err := Build(buf, RCWriteOnly, 1000)
			if err != nil {
				panic(err)
			}
			p.BTH().SetPSN(7)
			p.RETH().Set(1, 2, 3)
		},
		"Request": func() { sink += uint64(RC.Request(verbs.OpSendWithImm, Last)) },
		"Seal":    func() { f.Seal(packet, 0x4321) },
		"Verify": func() {
			m, id := f.Verify(packet, 0)
			sink += uint64(m) + uint64(id)
		},
		"NewFlow": func() {
			f, _ := NewFlow(src, dst)
			g, _ := NewFlow(src6, dst6)
			sink += uint64(f.register) + uint64(g.register)
		},
		"Frame": func() {
			b, _ := Frame{Src: src, Dst: dst}.Append(room, packet)
			c, _ := Frame{Src: src6, Dst: dst6}.Append(room, packet)
			sink += uint64(len(b) + len(c))
		},
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	_, packet := benchPacket(b, 1024, 0)
	b.ReportAllocs()
	for b.Loop() {
		p, err := Parse(packet)
		if err != nil {
			b.Fatal(err)
		}
		sink += uint64(p.BTH().PSN()) + uint64(len(p.Payload()))
	}
}

func BenchmarkBuild(b *testing.B) {
	buf := make([]byte, MaxPacket)
	b.ReportAllocs()
	for b.Loop() {
		p, err := Build(buf, RCWriteOnly, 1024)
		if err != nil {
			b.Fatal(err)
		}
		h := p.BTH()
		h.SetDestQPN(17)
		h.SetPSN(7)
		h.SetAckReq(true)
		p.RETH().Set(1, 2, 1024)
	}
}

func BenchmarkNewFlow(b *testing.B) {
	src, dst := netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791")
	b.ReportAllocs()
	for b.Loop() {
		f, _ := NewFlow(src, dst)
		sink += uint64(f.register)
	}
}

func BenchmarkICRC(b *testing.B) {
	for _, size := range append([]int{0}, benchSizes...) {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f, packet := benchPacket(b, size, 0)
			b.SetBytes(int64(len(packet)))
			b.ReportAllocs()
			for b.Loop() {
				f.Seal(packet, 0)
			}
		})
	}
}

// BenchmarkVerify verifies packets while identification 0 is expected. Identification 0 needs
// no computation; 7 is a GSO segment's; 0x4321 is one of rxe's.
func BenchmarkVerify(b *testing.B) {
	for _, size := range benchSizes {
		for _, id := range []uint16{0, 7, 0x4321} {
			b.Run(fmt.Sprintf("%d/id=%d", size, id), func(b *testing.B) {
				f, packet := benchPacket(b, size, id)
				b.SetBytes(int64(len(packet)))
				b.ReportAllocs()
				for b.Loop() {
					m, _ := f.Verify(packet, 0)
					sink += uint64(m)
				}
			})
		}
	}
}

func BenchmarkRemoveZeros(b *testing.B) {
	r := uint32(0x12345678)
	b.ReportAllocs()
	for b.Loop() {
		r = removeZeros(r, 4160)
	}
	sink += uint64(r)
}
