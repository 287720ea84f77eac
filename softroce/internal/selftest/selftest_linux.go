package selftest

import (
	"bytes"
	"encoding/binary"
	stderrors "errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// arrival limits the wait for a test packet.
const arrival = 500 * time.Millisecond

// A test packet begins with 16 bits: the identification that its IP header should have.
// The filter accepts the packet only if the header has that identification and DF.
//
//	decoy      wrongID      must not arrive; if it does, the system ignores filters
//	alone      0            a packet sent alone
//	burst      0, 1, 2      the packets of a GSO send
const (
	wrongID   = 0xfffe
	packetLen = 8
)

// ErrNoFilter means that the decoy has arrived, so the other results prove nothing.
var ErrNoFilter = errors.New("the system ignores socket filters")

// Send sends data from the socket under test. If segment is not 0, the system splits data into packets
// of that many bytes (GSO).
type Send func(data []byte, segment int, to netip.AddrPort) error

// Test is a test of one socket. It is for one goroutine.
type Test struct {
	send     Send
	listener *net.UDPConn
	to       netip.AddrPort
	nonce    [packetLen - 2]byte // distinguishes test packets from other packets
}

// New returns a test of a socket of addr, an IPv4 address. After an error the test cannot run.
func New(addr netip.Addr, send Send) (*Test, error) {
	listener, err := filtered(addr)
	if err != nil {
		return nil, err
	}
	t := &Test{send: send, listener: listener, to: listener.LocalAddr().(*net.UDPAddr).AddrPort()}
	binary.NativeEndian.PutUint32(t.nonce[:], rand.Uint32())
	return t, nil
}

// Alone returns nil if packets that are sent alone have identification 0 and DF. It returns ErrNoFilter if this
// system cannot be tested.
func (t *Test) Alone() error {
	if err := t.put(wrongID); err != nil {
		return err
	}
	return t.try(0)
}

// Burst returns nil if the packets of a GSO send have the identifications 0, 1, 2.
func (t *Test) Burst() error { return t.try(0, 1, 2) }

// Close ends the test.
func (t *Test) Close() { t.listener.Close() }

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

// put sends packets that begin with ids, in one GSO send if there are several.
func (t *Test) put(ids ...uint16) error {
	var data []byte
	for _, id := range ids {
		data = append(binary.BigEndian.AppendUint16(data, id), t.nonce[:]...)
	}
	segment := 0
	if len(ids) > 1 {
		segment = packetLen
	}
	return t.send(data, segment, t.to)
}

// try sends packets with the expected identifications ids and returns nil if all arrive.
func (t *Test) try(ids ...uint16) error {
	if err := t.put(ids...); err != nil {
		return err
	}
	if err := t.listener.SetReadDeadline(time.Now().Add(arrival)); err != nil {
		return err
	}
	for _, id := range ids {
		want := append(binary.BigEndian.AppendUint16(nil, id), t.nonce[:]...)
		for {
			var got [packetLen + 1]byte
			n, _, err := t.listener.ReadFromUDPAddrPort(got[:])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return errors.Errorf("no packet with identification %d and DF arrived within %v", id, arrival)
			}
			if err != nil {
				return err
			}
			if bytes.Equal(got[:n], want) {
				break
			}
			if bytes.HasPrefix(got[:n], binary.BigEndian.AppendUint16(nil, wrongID)) && bytes.HasSuffix(got[:n], t.nonce[:]) {
				return ErrNoFilter
			}
		}
	}
	return nil
}
