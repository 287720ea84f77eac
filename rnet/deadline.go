// Deadlines.

package rnet

import (
	"net"
	"time"
)

// deadline is a deadline of reads or writes. Conn.turn guards it.
type deadline struct {
	at     time.Time
	passed bool
	timer  *time.Timer // nil before the first deadline
}

// SetDeadline sets the deadlines of reads and writes, pending ones too. The zero time means none.
// Operations past their deadline return an error that matches os.ErrDeadlineExceeded.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, &c.reader, &c.readDeadline, &c.writer, &c.writeDeadline)
}

// SetReadDeadline sets the deadline of reads; see SetDeadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, &c.reader, &c.readDeadline, nil, nil)
}

// SetWriteDeadline sets the deadline of writes; see SetDeadline. After a write that timed out, the
// peer may have received a part of its bytes: the first n.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, &c.writer, &c.writeDeadline, nil, nil)
}

func (c *Conn) setDeadline(t time.Time, w *waiter, d *deadline, w2 *waiter, d2 *deadline) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	c.expire(w, d, t)
	if d2 != nil {
		c.expire(w2, d2, t)
	}
	return nil
}

// expire sets one deadline. One timer serves all deadlines of a kind; a timer that fires for an
// earlier deadline finds that the time has not come.
func (c *Conn) expire(w *waiter, d *deadline, t time.Time) {
	d.at, d.passed = t, false
	if t.IsZero() {
		d.stop()
		return
	}
	left := time.Until(t)
	switch {
	case left <= 0:
		d.stop()
		c.pass(w, d)
	case d.timer != nil:
		d.timer.Reset(left)
	default:
		d.timer = time.AfterFunc(left, func() {
			c.turn.Lock()
			defer c.turn.Unlock()
			switch left := time.Until(d.at); {
			case d.at.IsZero() || d.passed || c.closed:
			case left > 0:
				d.timer.Reset(left)
			default:
				c.pass(w, d)
			}
		})
	}
}

// pass notes that a deadline has passed, and ends the waits that it is for.
func (c *Conn) pass(w *waiter, d *deadline) {
	d.passed = true
	c.turn.Wake(w.Waiter)
	if w == &c.writer {
		c.turn.Wake(c.flusher.Waiter)
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
