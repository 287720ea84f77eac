// Several sockets on one address, so that several processors receive (SO_REUSEPORT). A filter in
// the kernel chooses the socket of each datagram. All packets for a queue pair must go to one socket,
// because their order counts.
//
//  1. On the loopback interface the queue pair's number chooses. Each datagram there was one GSO send, and
//     a device sends packets of two queue pairs in one only if both go to one socket (softroce/ports.go).
//  2. Packets from other hosts may have been joined by the kernel (GRO), even those of different queue pairs.
//     And rdma_rxe counts its packets over all queue pairs (senders.go). So the sender's address chooses.
//
// The first socket is bound without SO_REUSEPORT, so no other device gets the same address. Only a program of the same user that sets
// SO_REUSEPORT itself could still bind to it.

package link

import (
	"os"

	"golang.org/x/sys/unix"
)

// Split opens n more sockets on the address of l, which only receive. The packets are spread over all of them from now on. It returns nil,
// and adds a note to Status, if the system has no such sockets. It also returns nil if l is no Socket.
func Split(l Link, n int) []Link {
	s, ok := l.(*Socket)
	if !ok {
		return nil
	}
	more, err := s.split(n)
	if err != nil {
		for _, l := range more {
			l.Close() // nothing can be done about an error here
		}
		_ = onFD(s.conn, func(fd int) error { return setReusePort(fd, 0) })
		s.note("one goroutine receives, not %d (%v)", n+1, err)
		return nil
	}
	return more
}

func (s *Socket) split(n int) (more []Link, err error) {
	if err := onFD(s.conn, reusePort); err != nil {
		return nil, err
	}
	for len(more) < n {
		l, err := s.shard()
		if err != nil {
			return more, err
		}
		more = append(more, l)
	}
	filter := shardFilter(s.local.Addr().Is6(), uint32(n+1))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return more, onFD(s.conn, func(fd int) error {
		return os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF",
			unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program))
	})
}

func reusePort(fd int) error { return setReusePort(fd, 1) }

func setReusePort(fd, value int) error {
	return os.NewSyscallError("setsockopt SO_REUSEPORT", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, value))
}

// shard opens one more socket on the address of s.
func (s *Socket) shard() (*Socket, error) {
	conn, err := listen(s.local, reusePort, true)
	if err != nil {
		return nil, err
	}
	status := s.Status()
	return s.receiveOnly(conn, s.local.Addr(), Config{Limit: status.Receive, ReceiveBuffer: status.ReceiveBuffer})
}

// shardFilter returns the filter for n sockets, as a classic BPF program. Offsets from network are in the
// IP header; other offsets are in the UDP payload. Its result is the index of a socket, in the order in which they were bound.
func shardFilter(v6 bool, n uint32) []unix.SockFilter {
	const (
		ifIndex  = 1<<32 - 0x1000 + 8 // SKF_AD_OFF + SKF_AD_IFINDEX
		loopback = 1                  // the index of each network namespace's loopback interface
		network  = 1<<32 - 0x100000   // SKF_NET_OFF
		destQP   = 4                  // of the BTH: these four bytes, without the first
		atLeast  = destQP + 4         // a load beyond the end would choose the first socket
	)
	source := uint32(12) // of an IPv4 header
	if v6 {
		source = 8 + 12 // the last four bytes of the address
	}
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: ifIndex},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: loopback, Jf: 5},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_LEN},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: atLeast, Jf: 6},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: destQP},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xffffff},
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: network + source},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: n},
		{Code: unix.BPF_RET | unix.BPF_A},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}
