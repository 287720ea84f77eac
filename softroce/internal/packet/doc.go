// Package packet parses and builds RoCEv2 packets: the bytes between the UDP header and the end
// of the datagram. It computes and verifies the invariant CRC (ICRC), which also covers the IP
// header.
//
// # The life of a packet
//
//	sending     1. Build writes the headers of an Opcode into the caller's buffer
//	            2. the caller sets fields through views (BTH, RETH, AETH …) and fills Payload
//	            3. Flow.Seal writes the ICRC
//	receiving   1. Parse checks the layout of a datagram and returns an error if it is malformed
//	            2. Flow.Verify checks the ICRC and finds the IP identification
//	            3. the caller reads fields through views; Payload is a slice of the datagram
//
// Everything is a view over the caller's bytes: no function copies the packet or allocates
// memory. A Packet is valid until its buffer changes. The package has no state except constant
// tables, so several goroutines may use it at once if they do not share a buffer.
//
// The row of an opcode in opcode_rows.go has all that the package knows of the opcode. Parse,
// Build, the requester and the responder use these rows.
//
// Names are those of the InfiniBand Architecture Specification, volume 1, chapter 9, and of its
// annex A17 (RoCEv2). All fields are big-endian on the wire, except the ICRC.
package packet
