package verbs

import (
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
)

// TestAHFromWC reads the headers that datagrams begin with.
func TestAHFromWC(t *testing.T) {
	d, _ := newPaperDevice()
	var v4, v6 GIDEntry
	for _, e := range rxeTable {
		if e.Type != GIDTypeRoCEv2 || e.Port != 1 {
			continue
		}
		if e.GID.Addr().Is4() {
			v4 = e
		} else {
			v6 = e
		}
	}
	peer4, peer6 := qpstate.GID{10: 0xff, 11: 0xff, 12: 10, 15: 99}, qpstate.GID{0: 0xfd, 15: 7}
	ipv4 := make([]byte, GRHLen)
	ipv4[20], ipv4[21] = 0x45, 0x20
	copy(ipv4[32:], peer4[12:])
	copy(ipv4[36:], v4.GID[12:])
	ipv6 := make([]byte, GRHLen)
	copy(ipv6, []byte{0x62, 0x81, 0x23, 0x45}) // traffic class 0x28, flow label 0x12345
	copy(ipv6[8:], peer6[:])
	copy(ipv6[24:], v6.GID[:])
	sixAndFour := make([]byte, GRHLen) // IPv4, behind what looks like an IPv6 header's beginning
	copy(sixAndFour, ipv4)
	sixAndFour[0] = 0x60
	sum := uint32(0)
	for i := 20; i < GRHLen; i += 2 {
		sum += uint32(sixAndFour[i])<<8 | uint32(sixAndFour[i+1])
	}
	check := ^uint16(sum>>16 + sum)
	sixAndFour[30], sixAndFour[31] = byte(check>>8), byte(check)
	stranger := append([]byte{}, ipv4...)
	stranger[39] ^= 0xff

	datagram := WC{Opcode: WCRecv, Flags: WCGRH, SL: 3}
	for name, c := range map[string]struct {
		wc   WC
		grh  []byte
		want GRH
		err  error
	}{
		"IPv4":                  {datagram, ipv4, GRH{DGID: peer4, SGIDIndex: uint8(v4.Index), HopLimit: 255, TrafficClass: 0x20}, nil},
		"IPv4, 6 before it":     {datagram, sixAndFour, GRH{DGID: peer4, SGIDIndex: uint8(v4.Index), HopLimit: 255, TrafficClass: 0x20}, nil},
		"IPv6":                  {datagram, ipv6, GRH{DGID: peer6, SGIDIndex: uint8(v6.Index), HopLimit: 255, TrafficClass: 0x28, FlowLabel: 0x12345}, nil},
		"no header flagged":     {WC{Opcode: WCRecv}, nil, GRH{}, nil},
		"to somebody else":      {datagram, stranger, GRH{}, syscall.ENODATA},
		"too short":             {datagram, ipv4[:39], GRH{}, syscall.EINVAL},
		"neither 4 nor 6":       {datagram, make([]byte, GRHLen), GRH{}, syscall.EINVAL},
		"a send's completion":   {WC{Opcode: WCSend, Flags: WCGRH}, ipv4, GRH{}, syscall.EINVAL},
		"a receive that failed": {WC{Opcode: WCRecv, Flags: WCGRH, Status: WCWRFlushErr}, ipv4, GRH{}, syscall.EINVAL},
	} {
		attr, err := d.AHAttrFromWC(1, &c.wc, c.grh)
		if !errors.Is(err, c.err) || err == nil && (attr.GRH != c.want || attr.PortNum != 1 || attr.SL != c.wc.SL || attr.IsGlobal != (c.grh != nil)) {
			t.Errorf("%s: %+v, %v", name, attr, err)
		}
	}
}
