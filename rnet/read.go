// Reading: from the ring into the program's memory.

package rnet

import (
	"io"
	"net"
	"os"
	"sync"
)

// Read copies bytes that have arrived to b, and waits if there are none. The error is io.EOF when the
// peer has called CloseWrite or Close and everything is read, or a [*net.OpError] around
// os.ErrDeadlineExceeded, net.ErrClosed or an [*EndError].
func (c *Conn) Read(b []byte) (int, error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.turn.Lock()
	defer c.turn.Unlock()
	if len(b) == 0 && !c.closed {
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
			c.lent = k
			c.turn.Unlock()
			copy(b[n:], from)
			c.turn.Lock()
			c.lent = 0
		}
		n += int(k)
		c.read(k)
	}
	return n, nil
}

// read counts bytes as consumed and reports the free space to the peer when that is due.
func (c *Conn) read(n uint64) {
	c.stats.BytesRead += n
	c.flow.consumed += n
	if c.readEnded || c.closed { // CloseRead or Close came meanwhile
		c.dropUnread()
	}
	c.control()
}

// dropUnread frees the space of what has arrived and is unread, unless Read is copying from there: the
// peer may write to free space at once. Read then drops the rest.
func (c *Conn) dropUnread() {
	if c.lent == 0 {
		c.flow.consumed = c.flow.arrived
	}
}

// copyBuffers are the buffers of WriteTo.
var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 128 << 10

// WriteTo writes all bytes of the peer to w, until io.EOF. io.Copy calls it. It gives w copies, because
// the peer can change bytes in the ring at any time: w might write one text and add up the hash of another.
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	for {
		buffer, n, err := c.readCopy()
		if err == io.EOF { //nolint:errorlint // Read returns io.EOF itself
			return total, nil
		} else if err != nil {
			return total, err
		}
		written, err := writeAll(w, buffer[:n])
		copyBuffers.Put(buffer)
		total += int64(written)
		if err != nil {
			return total, err // also if w returns io.EOF
		}
	}
}

// readCopy waits for bytes of the peer, takes a buffer of the pool and reads into it. It takes the buffer
// after the wait, because many Conns may be idle.
func (c *Conn) readCopy() (*[copyBuffer]byte, int, error) {
	if err := c.awaitBytes(); err != nil {
		return nil, 0, err
	}
	buffer := copyBuffers.Get().(*[copyBuffer]byte)
	n, err := c.Read(buffer[:])
	if err != nil {
		copyBuffers.Put(buffer)
	}
	return buffer, n, err
}

// awaitBytes calls awaitData. The caller holds no lock.
func (c *Conn) awaitBytes() error {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.turn.Lock()
	defer c.turn.Unlock()
	return c.awaitData()
}

// writeAll returns an error if w writes less than all bytes.
func writeAll(w io.Writer, b []byte) (int, error) {
	n, err := w.Write(b)
	if n < 0 || n > len(b) {
		panic("rnet: the writer of WriteTo returned an impossible count")
	}
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
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
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.readEnded = true
	c.dropUnread()
	c.control()
	c.turn.Wake(c.reader.Waiter)
	c.ensureProgress()
	return nil
}
