// Tests with frames that a real rxe sent; see testdata/README.md.

package packet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// captured is a RoCE frame of a capture.
type captured struct {
	ip       []byte // from the IP header on
	ipLen    int    // length of the IP header in bytes
	src, dst netip.AddrPort
	id       uint16 // 0 over IPv6
	tos, ttl uint8
	packet   []byte // BTH to ICRC
}

func TestCaptured(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	seen := make(map[Opcode]bool)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for i, c := range readCapture(t, file) {
				p, err := Parse(c.packet)
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				seen[p.Opcode()] = true
				if mtu := pathMTU(file); !p.PayloadFits(mtu) {
					t.Errorf("frame %d: %v with %d bytes does not fit a path MTU of %d", i, p.Opcode(), len(p.Payload()), mtu)
				}
				checkICRC(t, i, c)

				f, err := NewFlow(c.src, c.dst)
				if err != nil {
					t.Fatal(err)
				}
				again := rebuild(t, p)
				f.Seal(again, c.id)
				if !bytes.Equal(again, c.packet) {
					t.Errorf("frame %d, %v: rebuilt\n% x, want\n% x", i, p.Opcode(), again, c.packet)
				}
				ip, err := Frame{Src: c.src, Dst: c.dst, ID: c.id, TOS: c.tos, TTL: c.ttl}.Append(nil, again)
				if err != nil {
					t.Fatal(err)
				}
				ip[c.ipLen+6], ip[c.ipLen+7] = 0, 0 // rxe sends no UDP checksum
				if !bytes.Equal(ip, c.ip) {
					t.Errorf("frame %d, %v: framed\n% x, want\n% x", i, p.Opcode(), ip, c.ip)
				}
			}
		})
	}
	for o := range Opcode(255) {
		if o.Known() && o != CongestionNotification && o != RCFlush && !seen[o] {
			t.Errorf("no capture contains %v", o)
		}
	}
}

// pathMTU returns the path MTU that capture.sh used for a file.
func pathMTU(file string) int {
	switch name := filepath.Base(file); {
	case strings.HasPrefix(name, "opcodes-"):
		return 256
	case strings.HasPrefix(name, "uc-write-"):
		return 512
	}
	return 1024
}

// checkICRC verifies the ICRC of c with and without the right expected identification.
func checkICRC(t *testing.T, i int, c captured) {
	t.Helper()
	f, err := NewFlow(c.src, c.dst)
	if err != nil {
		t.Fatal(err)
	}
	got := binary.LittleEndian.Uint32(c.packet[len(c.packet)-4:])
	if want := f.ICRC(c.packet, c.id); got != want {
		t.Errorf("frame %d: ICRC %08x, computed %08x", i, got, want)
	}
	for _, expect := range []uint16{0, c.id - 1, 0xffff} {
		m, id := f.Verify(c.packet, expect)
		if id != c.id || !m.OK() {
			t.Errorf("frame %d: Verify with another ID expected: %v, ID %d; want ID %d", i, m, id, c.id)
		}
		if c.src.Addr().Is6() && m != MatchExact {
			t.Errorf("frame %d: Verify over IPv6: %v", i, m)
		}
	}
	if m, id := f.Verify(c.packet, c.id); m != MatchExact || id != c.id {
		t.Errorf("frame %d: Verify with the right ID expected: %v, ID %d; want ID %d", i, m, id, c.id)
	}
}

// readCapture returns the frames of a classic pcap file, little-endian, of Ethernet frames. All
// files in testdata are of this kind.
func readCapture(t testing.TB, file string) (frames []captured) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const header, record, ethernet = 24, 16, 14
	if len(b) < header || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 || b[20] != 1 {
		t.Fatalf("%s: not little-endian pcap of Ethernet", file)
	}
	for b = b[header:]; len(b) > 0; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		frames = append(frames, splitFrame(t, b[record+ethernet:record+n]))
		b = b[record+n:]
	}
	if len(frames) == 0 {
		t.Fatalf("%s: no frames", file)
	}
	return frames
}

func splitFrame(t testing.TB, ip []byte) captured {
	t.Helper()
	c := captured{ip: ip}
	var src, dst []byte
	switch ip[0] >> 4 {
	case 4:
		c.ipLen, src, dst = 20, ip[12:16], ip[16:20]
		c.id, c.tos, c.ttl = binary.BigEndian.Uint16(ip[4:]), ip[1], ip[8]
	case 6:
		c.ipLen, src, dst = 40, ip[8:24], ip[24:40]
		c.tos, c.ttl = ip[0]<<4|ip[1]>>4, ip[7]
	default:
		t.Fatalf("IP version %d", ip[0]>>4)
	}
	udp := ip[c.ipLen:]
	s, _ := netip.AddrFromSlice(src)
	d, _ := netip.AddrFromSlice(dst)
	c.src = netip.AddrPortFrom(s, binary.BigEndian.Uint16(udp))
	c.dst = netip.AddrPortFrom(d, binary.BigEndian.Uint16(udp[2:]))
	c.packet = udp[8:binary.BigEndian.Uint16(udp[4:])]
	return c
}
