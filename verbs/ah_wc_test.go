package verbs

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
	"github.com/rawverbs/rawverbs/qpstate"
)

// bothKinds is the GID table of a RoCE v2 device: each address is there twice, RoCE v1 first. Port 2
// is InfiniBand.
var bothKinds = []GIDEntry{
	{GID: gid("fd99::1"), Port: 1, Index: 0, Type: GIDTypeRoCEv1},
	{GID: gid("fd99::1"), Port: 1, Index: 1, Type: GIDTypeRoCEv2},
	{GID: gid("10.99.0.1"), Port: 1, Index: 2, Type: GIDTypeRoCEv1},
	{GID: gid("10.99.0.1"), Port: 1, Index: 3, Type: GIDTypeRoCEv2},
	{GID: gid("fd99::1"), Port: 2, Index: 0, Type: GIDTypeIB},
}

// TestAHFromWCReadsTheHeaders reads the headers that datagrams begin with.
func TestAHFromWCReadsTheHeaders(t *testing.T) {
	d, paper := newPaperDevice()
	paper.gids = bothKinds
	peer4, peer6 := qpstate.GID{10: 0xff, 11: 0xff, 12: 10, 15: 99}, qpstate.GID{0: 0xfd, 15: 7}
	ipv4 := make([]byte, GRHLen)
	copy(ipv4[20:], []byte{0x45, 0x20, 8: 63, 9: nextUDP})
	copy(ipv4[32:], peer4[12:])
	copy(ipv4[36:], bothKinds[3].GID[12:])
	ipv6 := make([]byte, GRHLen)
	copy(ipv6, []byte{0x62, 0x81, 0x23, 0x45, 6: nextUDP, 7: 62}) // traffic class 0x28, flow label 0x12345
	copy(ipv6[8:], peer6[:])
	copy(ipv6[24:], bothKinds[0].GID[:])
	with := func(header []byte, at int, b byte) []byte {
		header = bytes.Clone(header)
		header[at] = b
		return header
	}
	sixAndFour := with(ipv4, 0, 0x60) // IPv4, behind what looks like an IPv6 header's beginning
	sum := uint32(0)
	for i := 20; i < GRHLen; i += 2 {
		sum += uint32(sixAndFour[i])<<8 | uint32(sixAndFour[i+1])
	}
	check := ^uint16(sum>>16 + sum)
	sixAndFour[30], sixAndFour[31] = byte(check>>8), byte(check)

	datagram := WC{Opcode: WCRecv, Flags: WCGRH, SL: 3}
	by4 := GRH{DGID: peer4, SGIDIndex: 3, HopLimit: 63, TrafficClass: 0x20}
	by6 := func(index uint8) GRH {
		return GRH{DGID: peer6, SGIDIndex: index, HopLimit: 62, TrafficClass: 0x28, FlowLabel: 0x12345}
	}
	for name, c := range map[string]struct {
		port uint8
		wc   WC
		grh  []byte
		want GRH
		err  error
	}{
		"IPv4":                  {1, datagram, ipv4, by4, nil},
		"IPv4, 6 before it":     {1, datagram, sixAndFour, by4, nil},
		"IPv6":                  {1, datagram, ipv6, by6(1), nil},
		"RoCE v1":               {1, datagram, with(ipv6, 6, nextIBA), by6(0), nil},
		"InfiniBand":            {2, datagram, with(ipv6, 6, nextIBA), by6(0), nil},
		"UDP over InfiniBand":   {2, datagram, ipv6, GRH{}, errno.NoData},
		"TCP":                   {1, datagram, with(ipv6, 6, 6), GRH{}, syscall.EPROTONOSUPPORT},
		"IPv4 multicast":        {1, datagram, with(ipv4, 36, 0xe1), GRH{}, syscall.EINVAL},
		"IPv6 multicast":        {1, datagram, with(ipv6, 24, 0xff), GRH{}, syscall.EINVAL},
		"no header flagged":     {1, WC{Opcode: WCRecv}, nil, GRH{}, nil},
		"to somebody else":      {1, datagram, with(ipv4, 39, 0xfe), GRH{}, errno.NoData},
		"another port":          {3, datagram, ipv4, GRH{}, errno.NoData},
		"too short":             {1, datagram, ipv4[:39], GRH{}, syscall.EINVAL},
		"neither 4 nor 6":       {1, datagram, make([]byte, GRHLen), GRH{}, syscall.EPROTONOSUPPORT},
		"a send's completion":   {1, WC{Opcode: WCSend, Flags: WCGRH}, ipv4, GRH{}, syscall.EINVAL},
		"a receive that failed": {1, WC{Opcode: WCRecv, Flags: WCGRH, Status: WCWRFlushErr}, ipv4, GRH{}, syscall.EINVAL},
	} {
		attr, err := d.AHAttrFromWC(c.port, &c.wc, c.grh)
		if !errors.Is(err, c.err) || err == nil && (attr.GRH != c.want || attr.PortNum != c.port || attr.SL != c.wc.SL || attr.IsGlobal != (c.grh != nil)) {
			t.Errorf("%s: %+v, %v", name, attr, err)
		}
	}
}
