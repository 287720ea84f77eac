package oob

// What only Linux can do: notice a closed connection before its bytes are read, and limit the wait for acknowledgements.

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"
)

// The events of poll(2) after which no more bytes arrive.
const (
	pollErr   = 0x0008
	pollHup   = 0x0010
	pollRdHup = 0x2000
)

// hangup returns io.EOF if the peer has closed, the errno if the connection broke, and
// nil otherwise. Earlier bytes may still be unread.
func hangup(fd uintptr) error {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: pollRdHup}
	var now syscall.Timespec
	// If ppoll fails, revents stays 0 and hangup returns nil.
	_, _, _ = syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	switch {
	case poll.revents&(pollErr|pollHup|pollRdHup) == 0:
		return nil
	case poll.revents&pollErr != 0:
		if code, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR); err == nil && code != 0 {
			return syscall.Errno(code)
		}
	}
	return io.EOF
}

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
