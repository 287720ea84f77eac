// Reading: from the ring into the program's memory.

package rnet

import (
	"io"
	"net"
	"os"
)

// Read copies bytes that have arrived to b, and waits if there are none. The error is io.EOF when the
// peer has called CloseWrite or Close and everything is read, or a [*net.OpError] around
// os.ErrDeadlineExceeded, net.ErrClosed or an [*EndError].
func (c *Conn) Read(b []byte) (int, error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if err := c.awaitData(); err != nil {
		return 0, err
	}
	n := 0
	for n < len(b) {
		at, k := c.flow.data()
		k = min(k, uint64(len(b)-n))
		if k == 0 {
			break
		}
		from := c.ring.Bytes()[at : at+k]
		if k <= smallCopy {
			copy(b[n:], from)
		} else {
			c.mu.Unlock()
			copy(b[n:], from)
			c.mu.Lock()
		}
		n += int(k)
		c.read(k)
	}
	return n, nil
}

// read counts bytes as consumed and reports the free space to the peer when that is due.
func (c *Conn) read(n uint64) {
	c.stats.BytesRead += n
	c.flow.consumed = min(c.flow.consumed+n, c.flow.arrived) // CloseRead may have dropped them meanwhile
	c.control()
}

// WriteTo writes all bytes of the peer to w, until io.EOF. w gets slices of the ring, which saves a
// copy. io.Copy calls it. Other reads wait until WriteTo has returned.
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch err := c.awaitData(); {
		case err == io.EOF: //nolint:errorlint // awaitData returns io.EOF itself
			return total, nil
		case err != nil:
			return total, err
		}
		at, k := c.flow.data()
		from := c.ring.Bytes()[at : at+k : at+k]
		c.mu.Unlock()
		n, err := w.Write(from)
		c.mu.Lock()
		if n < 0 || n > len(from) {
			panic("rnet: the writer of WriteTo returned an impossible count")
		}
		total += int64(n)
		c.read(uint64(n))
		if err == nil && n < len(from) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// awaitData waits until bytes of the peer can be read. The error is io.EOF, or one of Read.
func (c *Conn) awaitData() error {
	ok, err := c.readReady()
	if !ok && err == nil {
		err = c.await(&c.reader)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // readReady returns io.EOF itself
		err = c.opError("read", err)
	}
	return err
}

func (c *Conn) readReady() (bool, error) {
	switch {
	case c.closed:
		return false, net.ErrClosed
	case c.readDeadline.passed:
		return false, os.ErrDeadlineExceeded
	case c.readEnded:
		return false, io.EOF
	case c.flow.arrived > c.flow.consumed:
		return true, nil
	case c.flow.fin:
		return false, io.EOF
	}
	return false, c.err
}

// CloseRead ends the reading: Read returns io.EOF, and bytes of the peer are dropped from now on.
// The peer can still write.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.readEnded = true
	c.flow.consumed = c.flow.arrived
	c.control()
	c.interrupt(&c.reader)
	c.tend()
	return nil
}
