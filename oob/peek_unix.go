//go:build unix

package oob

import (
	"io"
	"syscall"
)

// peek waits until a byte can be read. It returns io.EOF at the end of the stream.
func peek(socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var failure error
	err = raw.Read(func(fd uintptr) (done bool) {
		var first [1]byte
		n, _, failure = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
		return failure != syscall.EAGAIN && failure != syscall.EINTR
	})
	switch {
	case err != nil:
		return err
	case failure != nil:
		return failure
	case n == 0:
		return io.EOF
	}
	return nil
}
