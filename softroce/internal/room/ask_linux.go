// Asking the kernel how much waits at an address. A receiver may have several sockets there (SO_REUSEPORT), and the kernel
// answers for one of them: the one that it would choose for a datagram from a given port. For a question no filter chooses,
// but a hash of the addresses and ports. So questions from different ports find all sockets.

package room

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// socket is one of a receiver's sockets.
type socket struct {
	from  uint16 // a question from this port finds it
	inode uint32
}

// tries is the number of ports, per socket, after which all sockets are found. With four sockets one is missed once in
// ten million times.
const tries = 16

// queued returns how much memory the datagrams use that wait at the fullest of a receiver's sockets.
func (rs *Receivers) queued(r *receiver) (bytes int, ok bool) {
	if bytes, ok = rs.fullest(r); !ok {
		rs.find(r)
		bytes, ok = rs.fullest(r)
	}
	return bytes, ok
}

// fullest returns false if the receiver's sockets are not known, or are others now.
func (rs *Receivers) fullest(r *receiver) (bytes int, ok bool) {
	for _, s := range r.sockets {
		got, inode, ok := rs.ask(r, s.from)
		if !ok || inode != s.inode {
			return 0, false
		}
		bytes = max(bytes, got)
	}
	return bytes, len(r.sockets) > 0
}

// find looks for the receiver's sockets.
func (rs *Receivers) find(r *receiver) {
	r.sockets = r.sockets[:0]
	for from := range uint16(tries * rs.sockets) {
		_, inode, ok := rs.ask(r, from)
		if !ok {
			return
		}
		if !slices.ContainsFunc(r.sockets, func(s socket) bool { return s.inode == inode }) {
			r.sockets = append(r.sockets, socket{from, inode})
		}
		if len(r.sockets) == rs.sockets {
			return
		}
	}
}

// diagRequest is struct inet_diag_req_v2, and diagAnswer struct inet_diag_msg.
type (
	diagSocket struct {
		fromPort, port [2]byte // big-endian
		from, addr     [16]byte
		device         uint32
		cookie         [2]uint32
	}
	diagRequest struct {
		family, protocol, extensions, _ uint8
		states                          uint32
		socket                          diagSocket
	}
	diagAnswer struct {
		family, state, timer, retransmits        uint8
		socket                                   diagSocket
		expires, received, written, owner, inode uint32
	}
)

const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	anyCookie        = ^uint32(0)
)

// ask returns how much memory the datagrams use that wait at one socket of a receiver. The kernel looks for the socket
// that would receive a datagram from a port.
func (rs *Receivers) ask(to *receiver, from uint16) (bytes int, inode uint32, ok bool) {
	r := diagRequest{family: unix.AF_INET6, protocol: unix.IPPROTO_UDP, states: ^uint32(0)}
	r.socket.cookie = [2]uint32{anyCookie, anyCookie}
	r.socket.device = to.device
	binary.BigEndian.PutUint16(r.socket.fromPort[:], from)
	binary.BigEndian.PutUint16(r.socket.port[:], packet.Port)
	copy(r.socket.addr[:], to.addr.AsSlice())
	if to.addr.Is4() {
		r.family = unix.AF_INET
	}
	header := (*unix.NlMsghdr)(unsafe.Pointer(&rs.buf))
	*header = unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + unsafe.Sizeof(r)), Type: sockDiagByFamily, Flags: unix.NLM_F_REQUEST}
	body := unsafe.Pointer(&rs.buf[unix.SizeofNlMsghdr])
	*(*diagRequest)(body) = r
	if _, err := unix.Write(rs.fd, rs.buf[:header.Len]); err != nil {
		return 0, 0, false
	}
	// The answer is there when write returns.
	n, err := unix.Read(rs.fd, rs.buf[:])
	if err != nil || n < unix.SizeofNlMsghdr+int(unsafe.Sizeof(diagAnswer{})) || header.Type != sockDiagByFamily {
		return 0, 0, false // mostly ENOENT
	}
	answer := (*diagAnswer)(body)
	return int(answer.received), answer.inode, true
}
