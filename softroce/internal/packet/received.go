package packet

import "net/netip"

// Received is a packet that was received.
type Received struct {
	Data     []byte     // from BTH to ICRC
	Src, Dst netip.Addr // IPv4 addresses have 4 bytes
	TOS, TTL uint8      // type of service and time to live, or traffic class and hop limit; 0 if unknown

	// What package link knows besides.
	SrcPort uint16
	ID      uint16 // identification of the IPv4 header
	Match   Match  // how much the ICRC proves, given the sender's earlier packets
}
