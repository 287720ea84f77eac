package oob

// Detection of a closed connection while the reader is stopped. A full inbox stops the
// reader. The end of the stream is then behind bytes that are not read yet, so the
// reader cannot find it.

import (
	"context"
	"sync"
	"syscall"
)

// watchHangup ends the Conn's context when the peer closes. It watches until stop is
// called; no other goroutine may read during that time. The kernel sees the end of the
// stream only after all earlier bytes fit into its buffer. If they do not fit,
// watchHangup does not notice the end, and the reader finds it later.
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

// awaitHangup waits until the connection ends and returns io.EOF or an errno. It returns
// nil if the wait was interrupted or the socket does not support it.
func awaitHangup(socket syscall.Conn) (reason error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	// The runtime's poller calls the function when bytes or the end have arrived.
	err = raw.Read(func(fd uintptr) (done bool) {
		reason = hangup(fd)
		return reason != nil
	})
	if err != nil {
		return nil
	}
	return reason
}
