// What a packet carries, in words.

package packet

import "fmt"

// Carries describes the header that matters most: the AETH, the RETH … It is "" if the packet has
// none of them.
func (p Packet) Carries() string {
	switch {
	case p.AETH() != nil:
		return p.AETH().Syndrome().String()
	case p.RETH() != nil:
		return fmt.Sprintf("VA %#x, rkey %#x, %d bytes", p.RETH().VA(), p.RETH().RKey(), p.RETH().DMALen())
	case p.AtomicETH() != nil:
		return fmt.Sprintf("VA %#x, rkey %#x", p.AtomicETH().VA(), p.AtomicETH().RKey())
	case p.IETH() != nil:
		return fmt.Sprintf("rkey %#x", p.IETH().RKey())
	case p.DETH() != nil:
		return fmt.Sprintf("Q_Key %#x, from QP 0x%06x", p.DETH().QKey(), p.DETH().SrcQPN())
	}
	return ""
}
