// The self-test of Linux: it sends packets to itself through a socket filter. The filter
// checks the IPv4 header, which a socket does not show.

package link

import (
	"bytes"
	"encoding/binary"
	stderrors "errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// selfTestWait limits the wait for a test packet.
const selfTestWait = 500 * time.Millisecond

// A test packet begins with 16 bits: the identification that its IP header should have.
// The filter accepts the packet only if the header has that identification and DF.
//
//	decoy      wrongID      must not arrive; if it does, the system ignores filters
//	alone      0            a packet sent alone
//	burst      0, 1, 2      the packets of a GSO send
const (
	wrongID       = 0xfffe
	testPacketLen = 8
)

// identificationFilter returns the filter as a classic BPF program. Offsets from network
// are in the IP header; other offsets are in the UDP datagram.
func identificationFilter() []unix.SockFilter {
	const (
		network   = 1<<32 - 0x100000 // SKF_NET_OFF, which is negative
		ipID      = 4
		ipFlags   = 6
		flagsDF   = 0x4000
		udpHeader = 8
		drop      = 0
		keep      = 0xffff
	)
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: network + ipFlags},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: flagsDF, Jf: 5},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: udpHeader},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: network + ipID},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: keep},
		{Code: unix.BPF_RET | unix.BPF_K, K: drop},
	}
}

// errNoFilter means that the decoy has arrived.
var errNoFilter = errors.New("the system ignores socket filters")

// testIdentification tests packets that are sent alone and, if GSO is on, bursts. It turns
// GSO off if the burst fails.
func (s *Socket) testIdentification() {
	listener, err := filtered(s.local.Addr())
	if err != nil {
		s.interop(InteropUnknown, fmt.Sprintf("the self-test cannot run: %v", err))
		return
	}
	defer listener.Close()
	to := listener.LocalAddr().(*net.UDPAddr).AddrPort()

	test := selfTest{from: s.conn, listener: listener, to: to}
	binary.NativeEndian.PutUint32(test.nonce[:], rand.Uint32())
	err = test.send(wrongID)
	if err == nil {
		err = test.try(0)
	}
	switch {
	case errors.Is(err, errNoFilter):
		s.interop(InteropUnknown, "the self-test cannot run: "+err.Error())
		return
	case err != nil:
		s.interop(InteropOff, fmt.Sprintf("packets leave with an IPv4 identification other than 0, or without DF (%v); "+
			"try: an IPv6 address", err))
		return
	}
	if Mode(s.sendMode.Load()) == Segmented {
		if err := test.try(0, 1, 2); err != nil {
			s.sendMode.Store(uint32(Batched))
			s.note("the packets of a GSO send do not leave with identifications 0, 1, 2 (%v): sending by sendmmsg", err)
		}
	}
	s.interop(InteropOn, "test packets arrived with the expected identifications")
}

// filtered returns a socket on a free port of addr that receives the test packets.
func filtered(addr netip.Addr) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		filter := identificationFilter()
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		controlErr := raw.Control(func(fd uintptr) {
			err = os.NewSyscallError("setsockopt SO_ATTACH_FILTER",
				unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
		})
		err = stderrors.Join(err, controlErr)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// selfTest has the two sockets of a test.
type selfTest struct {
	from     udpConn
	listener *net.UDPConn
	to       netip.AddrPort
	nonce    [testPacketLen - 2]byte // distinguishes test packets from other packets
}

// send sends packets that begin with ids, in one GSO send if there are several.
func (t *selfTest) send(ids ...uint16) error {
	var data []byte
	for _, id := range ids {
		data = append(binary.BigEndian.AppendUint16(data, id), t.nonce[:]...)
	}
	segment := 0
	if len(ids) > 1 {
		segment = testPacketLen
	}
	control := appendControl(make([]byte, 0, controlSpace), Destination{Addr: t.to.Addr()}, segment)
	_, _, err := t.from.WriteMsgUDPAddrPort(data, control, t.to)
	return err
}

// try sends packets with the expected identifications ids and returns nil if all arrive.
func (t *selfTest) try(ids ...uint16) error {
	if err := t.send(ids...); err != nil {
		return err
	}
	if err := t.listener.SetReadDeadline(time.Now().Add(selfTestWait)); err != nil {
		return err
	}
	for _, id := range ids {
		want := append(binary.BigEndian.AppendUint16(nil, id), t.nonce[:]...)
		for {
			var got [testPacketLen + 1]byte
			n, _, err := t.listener.ReadFromUDPAddrPort(got[:])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return errors.Errorf("no packet with identification %d and DF arrived within %v", id, selfTestWait)
			}
			if err != nil {
				return err
			}
			if bytes.Equal(got[:n], want) {
				break
			}
			if bytes.HasPrefix(got[:n], binary.BigEndian.AppendUint16(nil, wrongID)) && bytes.HasSuffix(got[:n], t.nonce[:]) {
				return errNoFilter
			}
		}
	}
	return nil
}
