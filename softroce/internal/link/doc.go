// Package link is the packet I/O of a RoCEv2 device. It sends and receives datagrams on
// UDP port 4791 of one local address, in batches. Packets with a flow label leave from other
// ports. It writes the ICRC of each sent packet and checks the ICRC of each received packet.
//
// # Sending
//
//  1. The device lays out packets of one size back to back (a burst) and passes them to
//     Egress.Add with their destination.
//  2. Link.Send writes the ICRC of each packet. The ICRC covers the IPv4 identification:
//     the packet's index in a burst that the kernel splits (GSO), or 0 in a packet that is
//     sent alone.
//  3. One sendmmsg passes bursts with one source port to the kernel. Packets with a flow label have
//     a source port of their own (outlet.go).
//  4. Send does not wait. What a socket without room does not take stays in the Egress. Link.AwaitRoom
//     waits for room. On systems other than Linux a socket always has room, or the call of the system waits.
//
// # Receiving
//
//  1. Link.Receive waits until a datagram arrives (package udp). One recvmmsg
//     then returns all waiting datagrams. The kernel may have joined datagrams of one
//     sender (GRO).
//  2. Ingress.take splits joined datagrams, checks each packet's ICRC and finds its
//     identification (packet.Flow.Verify). Bad packets are dropped and counted.
//  3. Ingress.Packets holds the good packets until the next Receive.
//
// # Kinds of links
//
// A Socket is a link over a real network. The tests of package softroce have links of a simulated network, which use
// Egress.Sealed and Ingress.Put.
//
// A Socket uses the best mode that the system supports: GSO and GRO, or sendmmsg and
// recvmmsg, or one datagram per call. Only Linux has more than the last one. If the kernel
// refuses GSO later, the Socket falls back to sendmmsg and sends those packets again.
// Status reports the modes in use and the reasons.
//
// Sending and receiving allocate no memory per packet. A waiting Receive holds no thread.
package link
