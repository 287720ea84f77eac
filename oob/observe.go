package oob

// What a trace learns of the exchange: one Event for each message.

import "time"

// Event is a native message that was sent, or has arrived whole.
type Event struct {
	Time  time.Time   // when the sending began, or the arrival was complete
	Sent  bool        // by this end; otherwise received
	Type  MessageType // what it is
	Name  string      // of the barrier or note, or the step of an error
	Size  int         // bytes on the connection, header included
	Local string      // this end's address
	Peer  string      // the peer's address
}

// Observer gets every native message of a Conn, from one goroutine at a
// time. A received message is reported on arrival, which may be well before the
// exchange that takes it. The function must not call the Conn's methods.
type Observer func(Event)

// SetObserver replaces the Observer of the Options, such as that of a Listener,
// by one of this Conn's own; nil ends the calls. SetObserver may be called at any time, from
// any goroutine but the Observer's.
func (c *Conn) SetObserver(o Observer) {
	c.observing.Lock()
	defer c.observing.Unlock()
	c.observer = o
}

func (c *Conn) observe(at time.Time, sent bool, m message) {
	c.observing.Lock()
	defer c.observing.Unlock()
	if c.observer == nil {
		return
	}
	local := ""
	if addr := c.nc.LocalAddr(); addr != nil {
		local = addr.String()
	}
	c.observer(Event{
		Time:  at,
		Sent:  sent,
		Type:  m.Type,
		Name:  m.Name,
		Size:  m.Size,
		Local: local,
		Peer:  c.peer,
	})
}
