// Status: the modes of a link, its limits, and the features that do not work.

package link

import "fmt"

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
	names := [...]string{Plain: "plain", Batched: "batched", Segmented: "segmented"}
	if m != 0 && int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Status describes a link.
type Status struct {
	Interface     string // "lo"; "" if simulated
	Send, Receive Mode
	ReceiveBuffer int // bytes granted; 0: unknown

	// Notes are sentences about fallbacks and missing features.
	Notes []string
}
