// Package udp has UDP sockets that wake no thread of Go without need.
//
// The runtime's poller watches sockets for everything, all the time. So a packet that arrives
// wakes the thread that sleeps in the poller, even if a goroutine is about to receive the packet
// anyway. A packet that leaves wakes it too, because the kernel reports that the socket has room
// again. Each of these wake-ups costs more than the packet.
//
// A Conn has an epoll descriptor of its own, and the runtime's poller watches that descriptor
// (waiter_linux.go). The descriptor watches the socket for packets only from a wait until a read that
// needs no wait, and for room only while a goroutine waits.
package udp
