// Package link is the packet I/O of a RoCEv2 device: datagrams to and from UDP
// port 4791 of one local address, in batches, with the ICRC sealed on the way
// out and checked on the way in.
//
// A packet goes through it in this order.
//
//	out  1. the device lays packets of one size back to back, a burst, and says
//	        by Egress.Add where they go
//	     2. Link.Send seals each packet: the IPv4 identification that the ICRC
//	        covers is the packet's index in a burst that the kernel cuts up
//	        (GSO), and 0 in a packet sent alone
//	     3. one sendmmsg hands over all bursts of the batch
//	in   4. Link.Receive sleeps on Go's poller until there is something, and takes
//	        all there is in one recvmmsg; datagrams of one sender may come joined
//	        (GRO)
//	     5. they are taken apart, each packet's ICRC is checked and its
//	        identification found (packet.Flow.Verify), and what is not sound is
//	        dropped and counted
//	     6. Ingress.Packets has the rest, until the next Receive
//
// There are two kinds of Link: a Socket, which is on a network, and what a
// Network gives, which simulates one with faults.
//
// A Socket finds out what the system can do: GSO and GRO, else sendmmsg and
// recvmmsg, else one datagram a call, as on all systems but Linux. When the
// kernel refuses GSO later on, it falls back and sends those packets again.
// Status tells which way is in use and why.
//
// Nothing is allocated for a packet. No thread is held while nothing comes.
package link
