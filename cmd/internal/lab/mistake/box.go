// A box between the ends: a UDP socket on port 4791 of an address of its own, which forwards
// their packets and can drop some, as a firewall or a switch does. Both ends take the box for
// their peer. So each packet gets other addresses on its way, and a new ICRC.

package mistake

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"

	"github.com/rawverbs/rawverbs/verbs"
)

const rocePort = 4791

// Lengths of headers in bytes.
const ipLen, udpLen, bthLen, icrcLen = 20, 8, 12, 4

// between puts a box between the ends. drop decides for the n-th packet of the client, from 1
// on, whether the box drops it; the server's packets all pass.
func (b *bench) between(name string, drop func(n int) bool) {
	if b.wire == nil {
		b.unsupported("the box that loses packets stands between two soft0 devices; other devices' packets do not pass it")
	}
	socket, err := listenBox()
	keep(b, socket, err)
	box := socket.LocalAddr().(*net.UDPAddr).AddrPort()
	client := netip.AddrPortFrom(b.client.gid.GID.Addr(), rocePort)
	server := netip.AddrPortFrom(b.server.gid.GID.Addr(), rocePort)
	b.wire.names[box.Addr()] = name
	b.client.attr.AH.GRH.DGID, b.server.attr.AH.GRH.DGID = verbs.GIDFrom(box.Addr()), verbs.GIDFrom(box.Addr())
	b.step("both", "the path leads to the "+name+", which is a UDP socket of this program", "")
	go func() {
		buf := make([]byte, 1<<16)
		for n := 0; ; {
			size, from, err := socket.ReadFromUDPAddrPort(buf)
			if err != nil {
				return // closed
			}
			to := client
			if from == client {
				to = server
				if n++; drop(n) {
					continue
				}
			}
			seal(buf[:size], box, to)
			_, _ = socket.WriteToUDPAddrPort(buf[:size], to) // what is lost here is sent again
		}
	}()
}

// listenBox binds an address that is free.
func listenBox() (socket *net.UDPConn, err error) {
	for i := range byte(100) {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 200, 0, 1 + i}), rocePort)
		if socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at)); err == nil {
			break
		}
	}
	return socket, err
}

// seal writes the ICRC of a packet from src to dst into its last four bytes. The ICRC covers
// the packet and the headers of IP and UDP, without the fields that change on the way: those
// count as ones. docs/on-the-wire.md has the layout.
func seal(packet []byte, src, dst netip.AddrPort) {
	s, d := src.Addr().As4(), dst.Addr().As4()
	udp := uint16(udpLen + len(packet))
	h := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // in place of InfiniBand's LRH
		0x45, 0xff} // IPv4, TOS
	h = binary.BigEndian.AppendUint16(h, ipLen+udp)
	h = append(h, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff) // ID 0, DF, TTL, UDP, checksum
	h = append(append(h, s[:]...), d[:]...)
	h = binary.BigEndian.AppendUint16(h, src.Port())
	h = binary.BigEndian.AppendUint16(h, dst.Port())
	h = binary.BigEndian.AppendUint16(h, udp)
	h = append(h, 0xff, 0xff)         // checksum
	h = append(h, packet[:bthLen]...) // BTH
	h[len(h)-bthLen+4] = 0xff         // FECN, BECN
	h = append(h, packet[bthLen:len(packet)-icrcLen]...)
	binary.LittleEndian.PutUint32(packet[len(packet)-icrcLen:], crc32.ChecksumIEEE(h))
}
