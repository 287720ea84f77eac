// The self-test of Open: whether a socket's IPv4 packets leave with the identifications that their ICRCs cover. If not, RDMA
// devices of the kernel and of hardware drop the packets silently.
//
// The test sends packets from the socket to a second one of this host, through a socket filter.
// The filter checks the IPv4 header, which a socket does not show.

package link

import (
	"bytes"
	"encoding/binary"
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

// errNoFilter means that the decoy has arrived, so the other results prove nothing.
var errNoFilter = errors.New("the system ignores socket filters")

// selfTest is a test of one socket.
type selfTest struct {
	socket   *Socket
	listener *net.UDPConn        // receives the packets that the filter accepts
	nonce    [packetLen - 2]byte // distinguishes test packets from other packets
}

// testIdentification tests packets that are sent alone and, if GSO is on, bursts. It turns GSO off if the burst fails.
func (s *Socket) testIdentification() {
	t := selfTest{socket: s}
	binary.NativeEndian.PutUint32(t.nonce[:], rand.Uint32())
	err := t.listen()
	if err == nil {
		defer t.listener.Close()
		if err = t.put(wrongID); err == nil {
			err = t.try(0)
		}
		if err != nil && !errors.Is(err, errNoFilter) {
			s.note("interop with kernel RDMA is off: packets leave with an IPv4 identification other than 0, or without DF (%v); "+
				"try: an IPv6 address", err)
			return
		}
	}
	if err != nil {
		s.note("interop with kernel RDMA is unknown: the self-test cannot run: %v", err)
		return
	}
	if Mode(s.sendMode.Load()) == Segmented {
		if err := t.try(0, 1, 2); err != nil {
			s.sendMode.Store(uint32(Batched))
			s.note("the packets of a GSO send do not leave with identifications 0, 1, 2 (%v): sending by sendmmsg", err)
		}
	}
}

// listen opens the listener, on a free port of the socket's address.
func (t *selfTest) listen() (err error) {
	t.listener, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(t.socket.Addr(), 0)))
	if err != nil {
		return err
	}
	raw, err := t.listener.SyscallConn()
	if err == nil {
		filter := identificationFilter()
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err = onFD(raw, func(fd int) error {
			return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
		})
	}
	if err != nil {
		t.listener.Close()
	}
	return err
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
func (t *selfTest) put(ids ...uint16) error {
	var data []byte
	for _, id := range ids {
		data = append(binary.BigEndian.AppendUint16(data, id), t.nonce[:]...)
	}
	segment := 0
	if len(ids) > 1 {
		segment = packetLen
	}
	to := t.listener.LocalAddr().(*net.UDPAddr).AddrPort()
	control := appendControl(make([]byte, 0, controlSpace), Destination{Addr: to.Addr()}, segment)
	return onFD(t.socket.conn, func(fd int) error {
		return unix.Sendmsg(fd, data, control, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}, 0)
	})
}

// try sends packets with the expected identifications ids and returns nil if all arrive.
func (t *selfTest) try(ids ...uint16) error {
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
				return errNoFilter
			}
		}
	}
	return nil
}
