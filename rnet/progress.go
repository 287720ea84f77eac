// The progress goroutine of a Conn, started at the first need. It polls while there is work that no
// goroutine of the program waits for; see wait.go.

package rnet

import (
	"slices"
	"time"
)

// ensureProgress sees to it that such work is done. The caller holds turn.
func (c *Conn) ensureProgress() {
	switch {
	case c.progresses() || c.polls():
	case c.urgent():
		c.startProgress()
	case !c.watching:
		c.watching = true
		c.watched = c.flow.posted
		c.watch.Reset(progressDelay)
	}
}

// polls reports whether a goroutine of this Conn polls.
func (c *Conn) polls() bool {
	return slices.ContainsFunc(c.waiters[:], func(w *waiter) bool { return c.turn.Works(w.Waiter) })
}

// needsProgress reports whether something must happen that no goroutine of the program waits for.
func (c *Conn) needsProgress() bool {
	return c.err == nil && !c.closed && (c.urgent() || c.flow.posted < c.flow.written)
}

// urgent reports whether something other than bytes that wait for a whole message needs the progress goroutine.
func (c *Conn) urgent() bool {
	return c.wantFIN && !c.sentFIN || c.alive.probing || c.gone || c.readEnded && !c.flow.fin
}

// progressDelay is how long at least the progress goroutine leaves bytes that wait for a whole message alone. A program that
// writes much fills the message earlier, or polls itself. The progress goroutine would only take the lock and a processor
// from it.
const progressDelay = 250 * time.Microsecond

// newWatch returns the timer that calls look. It does not run yet.
func (c *Conn) newWatch() *time.Timer {
	t := time.AfterFunc(time.Hour, c.look)
	t.Stop()
	return t
}

// look starts the progress goroutine if nothing has left since the last look.
func (c *Conn) look() {
	if !c.turn.TryLock() { // somebody is at work
		c.watch.Reset(progressDelay)
		return
	}
	defer c.turn.Unlock()
	if c.watched != c.flow.posted && !c.closed {
		c.watched = c.flow.posted
		c.watch.Reset(progressDelay)
		return
	}
	c.watching = false
	if !c.progresses() && !c.polls() {
		c.startProgress()
	}
}

func (c *Conn) startProgress() {
	if !c.progressing {
		c.progressing = true
		go c.progress()
	}
}

func (c *Conn) progress() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.poll(&c.background)
	c.progressing = false
}

// progresses reports whether another goroutine waits, which does the progress goroutine's work, or there is no such work.
func (c *Conn) progresses() bool {
	return !c.needsProgress() || slices.ContainsFunc(c.waiters[:4], func(w *waiter) bool { return w.Asleep() })
}
