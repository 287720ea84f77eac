// Writing: from the program's memory into the staging ring, and from there into the peer's ring.

package rnet

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// Write copies b into the staging ring and posts it. It waits while the peer's ring is full. The
// peer may not have received the bytes yet when Write returns. The error is a [*net.OpError]
// around os.ErrDeadlineExceeded, net.ErrClosed, EPIPE after CloseWrite or the peer's Close, or an
// [*EndError].
func (c *Conn) Write(b []byte) (int, error) {
	c.writes.Lock()
	defer c.writes.Unlock()
	c.turn.Lock()
	defer c.turn.Unlock()
	n, err := c.write(b)
	c.flush()
	if err != nil {
		return n, c.opError("write", err)
	}
	return n, nil
}

// WriteBuffers writes all buffers, and takes the bytes written from *bufs. Small buffers share
// messages, as with writev. net.Buffers.WriteTo calls Write for each buffer instead, because it
// knows only the types of package net.
func (c *Conn) WriteBuffers(bufs *net.Buffers) (int64, error) {
	c.writes.Lock()
	defer c.writes.Unlock()
	c.turn.Lock()
	defer c.turn.Unlock()
	var total int64
	for len(*bufs) > 0 {
		n, err := c.write((*bufs)[0])
		total += int64(n)
		if err != nil {
			(*bufs)[0] = (*bufs)[0][n:]
			c.flush()
			return total, c.opError("write", err)
		}
		(*bufs)[0] = nil
		*bufs = (*bufs)[1:]
	}
	c.flush()
	return total, nil
}

// smallCopy is how many bytes are copied with turn held. Releasing and taking it would cost more.
const smallCopy = 4096

// write puts b into the staging ring. It posts what is in the ring when it has put a message's
// length there or the ring is full; its caller posts the rest. The caller holds writes and turn.
func (c *Conn) write(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, c.writeEnd()
	}
	for {
		if err := c.awaitSpace(); err != nil {
			return n, err
		}
		at, room := c.flow.space()
		k := min(len(b)-n, int(room))
		to := c.staging.Bytes()[at : int(at)+k]
		if k <= smallCopy {
			copy(to, b[n:])
		} else {
			c.turn.Unlock()
			copy(to, b[n:])
			c.turn.Lock()
			if err := c.writeEnd(); err != nil { // Close or CloseWrite came meanwhile
				return n, err
			}
		}
		n += k
		c.wrote(k)
		if n == len(b) {
			return n, nil
		}
		c.flush()
	}
}

func (c *Conn) wrote(n int) {
	c.flow.written += uint64(n)
	c.stats.BytesWritten += uint64(n)
}

// ReadFrom reads from r into the staging ring until io.EOF, which saves a copy. io.Copy calls it.
// Other writes wait until ReadFrom has returned. A write deadline and Close do not interrupt r.
func (c *Conn) ReadFrom(r io.Reader) (total int64, err error) {
	c.writes.Lock()
	defer c.writes.Unlock()
	c.turn.Lock()
	defer c.turn.Unlock()
	for {
		if err := c.awaitSpace(); err != nil {
			return total, c.opError("write", err)
		}
		at, room := c.flow.space()
		to := c.staging.Bytes()[at : at+room]
		n, readErr := c.readFrom(r, to)
		if n < 0 || n > len(to) {
			panic("rnet: the reader of ReadFrom returned an impossible count")
		}
		// The Conn may have been closed meanwhile.
		if err := c.writeEnd(); n > 0 && err != nil {
			return total, c.opError("write", err)
		}
		total += int64(n)
		c.wrote(n)
		c.flush()
		switch {
		case readErr == io.EOF: //nolint:errorlint // io.Copy compares it like this
			return total, nil
		case readErr != nil:
			return total, readErr
		}
	}
}

// readFrom reads without turn, and takes it again also if r panics.
func (c *Conn) readFrom(r io.Reader, to []byte) (int, error) {
	c.turn.Unlock()
	defer c.turn.Lock()
	return r.Read(to)
}

// awaitSpace waits for space in the staging ring, if there is none.
func (c *Conn) awaitSpace() error {
	if ok, err := c.writeReady(); ok || err != nil {
		return err
	}
	c.flush() // WriteBuffers may have left something
	c.stats.WaitsForSpace++
	return c.await(&c.writer)
}

func (c *Conn) writeReady() (bool, error) {
	err := c.writeEnd()
	return c.flow.written-c.flow.freed < c.flow.ring, err
}

// writeEnd returns why nothing can be written, or nil.
func (c *Conn) writeEnd() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.writeDeadline.passed:
		return os.ErrDeadlineExceeded
	case c.wantFIN:
		return &EndError{syscall.EPIPE, errors.New("CloseWrite was called")}
	case c.err != nil && c.flow.fin && errors.Is(c.err, syscall.ECONNRESET):
		return &EndError{syscall.EPIPE, errors.New("the peer has closed the connection")}
	}
	return c.err
}

// Flush waits until the peer's device has received everything that was written. The peer's program
// may not have read it yet, but after hundreds of small writes that it has not read Flush waits for it.
// The write deadline and Close end the wait; the errors are those of Write.
func (c *Conn) Flush() error {
	c.writes.Lock()
	defer c.writes.Unlock()
	c.turn.Lock()
	defer c.turn.Unlock()
	if err := c.await(&c.flusher); err != nil {
		return c.opError("write", err)
	}
	return nil
}

func (c *Conn) flushReady() (bool, error) {
	switch {
	case c.flow.posted == c.flow.written && c.onTheWay == 0 && c.wantFIN == c.sentFIN:
		return true, nil
	case c.closed:
		return false, net.ErrClosed
	case c.writeDeadline.passed:
		return false, os.ErrDeadlineExceeded
	}
	return false, c.err
}

// CloseWrite ends the writing: when the peer has read everything, its Read returns io.EOF. This end
// can still read.
func (c *Conn) CloseWrite() error {
	c.turn.Lock()
	defer c.turn.Unlock()
	switch {
	case c.closed:
		return c.opError("close", net.ErrClosed)
	case c.err != nil:
		return c.opError("close", c.err)
	}
	c.wantFIN = true
	c.flush()
	c.turn.Wake(c.writer.Waiter)
	return nil
}

// Places in the send queue. Control messages may use the last ones.
const (
	sends         = 128
	sendsReserved = 16
)

// flush posts what can be posted. The progress goroutine posts the rest later if nobody else does. The caller
// holds turn.
func (c *Conn) flush() {
	n := 0
	for busy := c.onTheWay >= few; c.err == nil && !c.reset && c.onTheWay+n < sends-sendsReserved; {
		at, m := c.flow.next(busy, c.wantFIN)
		if m.length == 0 {
			break
		}
		c.stats.MessagesSent++
		c.prepare(n, at, m)
		if n++; n == len(c.wrs) {
			c.post(n)
			n = 0
		}
	}
	c.post(n)
	c.control()
	c.ensureProgress()
}

// control posts the control message that is due, if any.
func (c *Conn) control() {
	if c.onTheWay >= sends {
		return // the completion of a request brings another try
	}
	switch {
	case c.reset && !c.sentRST:
		c.sentRST = true
		c.postControl(arrival{control: true, rst: true})
	case c.err != nil || c.reset:
	case c.wantFIN && !c.sentFIN && c.flow.posted == c.flow.written:
		c.sentFIN = true
		m := c.flow.report()
		m.fin = true
		c.postControl(m)
	case c.flow.due():
		c.repost() // what is reported as posted again must be posted
		c.stats.ReportsSent++
		c.postControl(c.flow.report())
	}
}

func (c *Conn) postControl(m arrival) {
	c.prepare(0, 0, m)
	c.post(1)
}

// prepare makes the request number i of the next post.
func (c *Conn) prepare(i int, at uint64, m arrival) {
	c.wrs[i] = verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: m.imm(),
		RemoteAddr: c.peer.Addr + at, RKey: c.peer.RKey}
	if m.length > 0 {
		c.sges[i] = c.staging.SGE(int(at), int(m.length))
		c.wrs[i].SGL = c.sges[i : i+1]
	}
}

// post posts the first n requests.
func (c *Conn) post(n int) {
	if n == 0 {
		return
	}
	if err := c.rc.QP().PostSend(c.wrs[:n]); err != nil {
		c.fail(lost(err))
		return
	}
	c.onTheWay += n
}
