// The tender: a goroutine of the Conn, started at the first need. It polls while there is work that no
// goroutine of the program waits for; see wait.go.

package rnet

import (
	"slices"
	"time"
)

// tend provides for such work. The caller holds turn.
func (c *Conn) tend() {
	switch {
	case c.tended() || c.polls():
	case c.urgent():
		c.startTender()
	case !c.watching:
		c.watching = true
		c.watched = c.flow.posted
		c.watch.Reset(tendDelay)
	}
}

// polls reports whether a goroutine of this Conn polls.
func (c *Conn) polls() bool {
	return slices.ContainsFunc(c.waiters[:], func(w *waiter) bool { return c.turn.Works(w.Waiter) })
}

// needsTender reports whether something must happen that no goroutine of the program waits for.
func (c *Conn) needsTender() bool {
	return c.err == nil && !c.closed && (c.urgent() || c.flow.posted < c.flow.written)
}

// urgent reports whether something other than bytes that wait for a whole message needs the tender.
func (c *Conn) urgent() bool {
	return c.wantFIN && !c.sentFIN || c.alive.probing || c.gone || c.readEnded && !c.flow.fin
}

// tendDelay is how long at least the tender leaves bytes that wait for a whole message alone. A program that
// writes much fills the message earlier, or polls itself. The tender would only take the lock and a processor
// from it.
const tendDelay = 250 * time.Microsecond

// newWatch returns the timer that calls look. It does not run yet.
func (c *Conn) newWatch() *time.Timer {
	t := time.AfterFunc(time.Hour, c.look)
	t.Stop()
	return t
}

// look starts the tender if nothing has left since the last look.
func (c *Conn) look() {
	if !c.turn.TryLock() { // somebody is at work
		c.watch.Reset(tendDelay)
		return
	}
	defer c.turn.Unlock()
	if c.watched != c.flow.posted && !c.closed {
		c.watched = c.flow.posted
		c.watch.Reset(tendDelay)
		return
	}
	c.watching = false
	if !c.tended() && !c.polls() {
		c.startTender()
	}
}

func (c *Conn) startTender() {
	if !c.tending {
		c.tending = true
		go c.runTender()
	}
}

func (c *Conn) runTender() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.poll(&c.tender)
	c.tending = false
}

// tended reports whether another goroutine waits, which does the tender's work, or there is no such work.
func (c *Conn) tended() bool {
	return !c.needsTender() || slices.ContainsFunc(c.waiters[:4], func(w *waiter) bool { return w.Asleep() })
}
