// This file tells how a link works: which way in, which way out, and what does
// not work.

package link

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Mode is a way of sending or receiving, from the one that always works to the
// quickest.
type Mode uint8

// The modes.
const (
	// Plain is one datagram a call.
	Plain Mode = 1 + iota
	// Batched is many datagrams a call: sendmmsg, recvmmsg.
	Batched
	// Segmented is many bursts a call, which the kernel takes apart or joins:
	// GSO, GRO.
	Segmented
)

func (m Mode) String() string {
	switch m {
	case Plain:
		return "plain"
	case Batched:
		return "batched"
	case Segmented:
		return "segmented"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// send and receive name the mode as a system call or feature.
func (m Mode) send() string {
	return [...]string{Plain: "plain", Batched: "sendmmsg", Segmented: "GSO"}[m]
}

func (m Mode) receive() string {
	return [...]string{Plain: "plain", Batched: "recvmmsg", Segmented: "GRO"}[m]
}

// Interop is whether kernel and hardware RDMA take what a link sends.
type Interop uint8

// The answers.
const (
	// InteropUnknown: there is no way to tell.
	InteropUnknown Interop = iota
	// InteropOff: the ICRC covers an IPv4 identification that this system does
	// not let a socket foresee. Software devices of this package still
	// understand each other.
	InteropOff
	// InteropOn: it was tried, or IPv6 leaves nothing to try.
	InteropOn
)

func (i Interop) String() string {
	switch i {
	case InteropUnknown:
		return "not known"
	case InteropOff:
		return "off"
	case InteropOn:
		return "on"
	}
	return fmt.Sprintf("interop %d", uint8(i))
}

// Status is how a link works.
type Status struct {
	Addr          netip.Addr
	Interface     string // "lo"; "" if simulated
	MTU           int    // largest path MTU
	Send, Receive Mode
	ReceiveBuffer int // bytes granted, 0 if not known

	// Interop with RDMA devices of the kernel and of hardware, and how that is
	// known or why it is off.
	Interop       Interop
	InteropReason string

	// Notes are what fell back, and what to know besides, as sentences.
	Notes []string
}

// String is one line.
func (s Status) String() string {
	var b strings.Builder
	b.WriteString(netip.AddrPortFrom(s.Addr, packet.Port).String())
	if s.Interface != "" {
		b.WriteString(" on " + s.Interface)
	}
	fmt.Fprintf(&b, ": path MTU %d, send %s, receive %s", s.MTU, s.Send.send(), s.Receive.receive())
	if s.ReceiveBuffer != 0 {
		fmt.Fprintf(&b, ", receive buffer %d KiB", s.ReceiveBuffer>>10)
	}
	fmt.Fprintf(&b, "; interop with kernel RDMA is %v: %s", s.Interop, s.InteropReason)
	for _, n := range s.Notes {
		b.WriteString("; " + n)
	}
	return b.String()
}
