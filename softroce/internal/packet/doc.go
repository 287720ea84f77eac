// Package packet is the RoCEv2 packet: the bytes between the UDP header and the
// end of the datagram, and the invariant CRC that ties them to the IP header.
//
// A packet goes through it in this order.
//
//	sending     1. Build lays the headers of an Opcode into the caller's buffer
//	            2. the views (BTH, RETH, AETH …) set fields, the caller fills Payload
//	            3. Flow.Seal writes the ICRC
//	receiving   1. Parse checks the shape of a datagram and says what is wrong with it
//	            2. Flow.Verify checks the ICRC, and finds the IP identification
//	            3. the views read fields, Payload is a slice of the datagram
//
// Everything is a view over the caller's bytes: nothing is copied, nothing is
// allocated, and a Packet is valid as long as its buffer is left alone. There
// is no state in the package but constant tables, so all of it may be used
// from many goroutines, as long as they do not share a buffer.
//
// All that is known of an opcode stands in its row of opcode_rows.go. Parse, Build,
// the requester and the responder read it there.
//
// Names are those of the InfiniBand Architecture Specification, volume 1,
// chapter 9, and of its annex A17 (RoCEv2). All fields are big-endian on the
// wire, but the ICRC.
package packet
