package oob

import (
	"net"
	"syscall"
	"time"
)

// unacknowledgedFor is how long a host may leave a message unacknowledged. Meanwhile Linux sends no keep-alives, and
// would go on sending the message for a quarter of an hour.
const unacknowledgedFor = 20 * time.Second

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds; package syscall lacks it

// limitUnacknowledged does what keepAlive does, while a message is on its way.
func limitUnacknowledged(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) { // a system without the option keeps the longer time
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unacknowledgedFor.Milliseconds()))
	})
}
