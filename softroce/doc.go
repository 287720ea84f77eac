// Package softroce is a RoCEv2 device in pure Go: RDMA with no RDMA hardware, no
// kernel module and no privileges. Its packets are real ones, on UDP port 4791,
// and the kernel's rdma_rxe and hardware understand them.
//
// Importing the package makes its devices known to package verbs:
//
//	import _ "github.com/rawverbs/rawverbs/softroce"
//
//	dev, err := verbs.Open("soft0")
//
// The names are
//
//   - soft0: on the loopback interface. Each device that is opened takes an address
//     of 127.0.0.0/8 of its own, so that processes of one host reach each other with
//     no set-up.
//   - soft:IFACE, such as soft:eth0: on an interface, with all its addresses.
//   - soft:ADDRESS, such as soft:10.0.0.1 or soft:fd00::1: on one address.
//
// One process owns UDP port 4791 of an address. Where the kernel's rdma_rxe runs
// in the same network namespace it owns the port of all of them.
//
// Opening one fails with EADDRINUSE if the port is somebody's, ENODEV for an interface
// that does not exist, EADDRNOTAVAIL for an address that is not this host's, or an
// interface without one; the error says what to try. A device holds a socket and a
// goroutine for each of its addresses, until Close; idle it takes no time.
//
// The functions of this package may be called by several goroutines at once.
//
// How it works, from the top: this package adapts the objects of internal/transport,
// which holds the protocol and knows no socket and no clock, to the interfaces of
// verbs, and drives them with a clock and the sockets of internal/link. What it
// does and does not do is in docs/softroce.md.
//
// # Examples
//
//	ExampleCapture  counting the packets of a soft device
package softroce
