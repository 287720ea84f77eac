// Package softroce is a RoCEv2 device in pure Go. It needs no RDMA hardware, no kernel module
// and no privileges. It sends real RoCEv2 packets on UDP port 4791, which the kernel's rdma_rxe
// and hardware understand.
//
// Importing the package registers its devices with package verbs:
//
//	import _ "github.com/rawverbs/rawverbs/softroce"
//
//	dev, err := verbs.Open("soft0")
//
// The device names are
//
//   - soft0: on the loopback interface. Each opened device takes its own address of
//     127.0.0.0/8, so processes of one host reach each other without set-up.
//   - soft:IFACE, such as soft:eth0: on all addresses of an interface.
//   - soft:ADDRESS, such as soft:10.0.0.1 or soft:fd00::1: on one address.
//
// One process owns UDP port 4791 of an address. The kernel's rdma_rxe, if it runs, owns that
// port on all addresses of its network namespace.
//
// Opening a device fails with EADDRINUSE if another process owns the port, with ENODEV if the
// interface does not exist, and with EADDRNOTAVAIL if the address is not this host's or the
// interface has no address. The error says what to try. A device holds one socket and one
// goroutine per address until Close, and on Linux one of each that wait for changes of the host's interfaces and
// addresses. An idle device uses no processor time.
//
// Several goroutines may call the functions of this package at once.
//
// The protocol is in internal/transport, which has no socket and no clock. The sockets are in
// internal/link. This package adapts the objects of internal/transport to the interfaces of
// package verbs, and drives them with a clock and with the sockets. docs/softroce.md lists
// what the device supports.
//
// # Examples
//
//	ExampleCapture  counts the packets of a soft device
package softroce
