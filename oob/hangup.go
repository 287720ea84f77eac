package oob

// Noticing the peer's end while nothing is read: a full inbox stops the reader, and the
// end of the stream lies behind bytes that nobody reads yet.

import (
	"context"
	"sync"
	"syscall"
)

// watchHangup ends the Conn's context when the peer hangs up, until stop is called.
// Other goroutines must not read meanwhile. The kernel learns of the end only after it
// has received all that the peer sent: an end behind more than its buffer takes is
// noticed when this end reads on.
func (c *Conn) watchHangup() (stop func()) {
	socket, ok := c.nc.(syscall.Conn)
	if !ok || c.ctx.Err() != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		_ = interruptible(ctx, c.nc.SetReadDeadline, func() error {
			if reason := awaitHangup(socket); reason != nil {
				c.end(&ClosedError{Peer: c.peer, Err: reason})
			}
			return nil
		})
	})
	return func() {
		cancel()
		watch.Wait()
	}
}

// awaitHangup returns how the peer ended the connection: io.EOF or an errno; nil if the
// wait was cut short, or the socket cannot say.
func awaitHangup(socket syscall.Conn) (reason error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	// The poller calls the function whenever bytes or the end have come.
	err = raw.Read(func(fd uintptr) (done bool) {
		reason = hangup(fd)
		return reason != nil
	})
	if err != nil {
		return nil
	}
	return reason
}
