// Status: the modes of a link, its limits, and the features that do not work.

package link

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Mode is a way of sending or receiving. A greater Mode is faster; Plain always works.
type Mode uint8

// The modes.
const (
	// Plain uses one call per datagram.
	Plain Mode = 1 + iota
	// Batched uses one call for many datagrams: sendmmsg, recvmmsg.
	Batched
	// Segmented uses one call for many bursts, which the kernel splits (GSO) or joins
	// (GRO).
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

// send and receive return the system call or feature of the mode.
func (m Mode) send() string {
	return [...]string{Plain: "plain", Batched: "sendmmsg", Segmented: "GSO"}[m]
}

func (m Mode) receive() string {
	return [...]string{Plain: "plain", Batched: "recvmmsg", Segmented: "GRO"}[m]
}

// Interop is whether RDMA devices of the kernel and of hardware accept a link's packets.
type Interop uint8

// The values of Interop.
const (
	// InteropUnknown: the self-test could not run.
	InteropUnknown Interop = iota
	// InteropOff: the ICRC covers the IPv4 identification, which a socket of this system
	// cannot predict. Links of this package still accept each other's packets.
	InteropOff
	// InteropOn: the self-test passed, or IPv6 makes it unnecessary.
	InteropOn
)

func (i Interop) String() string {
	switch i {
	case InteropUnknown:
		return "unknown"
	case InteropOff:
		return "off"
	case InteropOn:
		return "on"
	}
	return fmt.Sprintf("interop %d", uint8(i))
}

// Status describes a link.
type Status struct {
	Addr          netip.Addr
	Interface     string // "lo"; "" if simulated
	MTU           int    // largest path MTU
	Send, Receive Mode
	ReceiveBuffer int // bytes granted; 0: unknown

	// Interop is the interoperability with RDMA devices of the kernel and of hardware.
	// InteropReason explains the value.
	Interop       Interop
	InteropReason string

	// Notes are sentences about fallbacks and missing features.
	Notes []string
}

// String returns the status in one line.
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
