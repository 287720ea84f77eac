// The tender: a goroutine of the Conn, started at the first need. It leads while there is work that no
// goroutine of the program waits for; see wait.go.

package rnet

import "time"

// tend provides for such work. The caller holds mu.
func (c *Conn) tend() {
	switch {
	case c.leader != nil || !c.needsTender():
	case c.urgent():
		c.startTender()
	case !c.watching:
		c.watching = true
		c.watched = c.flow.posted
		c.watch.Reset(tendDelay)
	}
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
// writes much fills the message earlier, or leads itself. The tender would only take the lock and a processor
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
	if !c.mu.TryLock() { // somebody is at work
		c.watch.Reset(tendDelay)
		return
	}
	defer c.mu.Unlock()
	if c.watched != c.flow.posted && !c.closed {
		c.watched = c.flow.posted
		c.watch.Reset(tendDelay)
		return
	}
	c.watching = false
	if c.leader == nil && c.needsTender() {
		c.startTender()
	}
}

func (c *Conn) startTender() {
	if c.tending {
		c.tender.wakeUp()
		return
	}
	c.tending = true
	go c.runTender()
}

func (c *Conn) runTender() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.err == nil {
		if c.leader != nil || !c.needsTender() {
			c.sleep(&c.tender)
			continue
		}
		c.lead(&c.tender)
		if f := c.follower(); f != nil { // it does the same work and needs no hand-over afterwards
			f.wakeUp()
			c.sleep(&c.tender)
		}
	}
	c.passOn()
}
