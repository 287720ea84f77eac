package oob

// The events of an exchange for a trace: one Event per message.

import "time"

// Event describes a native message that was sent or received completely.
type Event struct {
	Time  time.Time   // when the send began or the receive was complete
	Sent  bool        // true: this side sent it; false: this side received it
	Type  MessageType // type of the message
	Name  string      // name of the barrier or note, or step of the error
	Size  int         // bytes on the connection, with the header
	Local string      // this side's address
	Peer  string      // the peer's address
}

// Observer is called for every native message of a Conn, by one goroutine at a time. A
// received message is reported on arrival, which may be long before the exchange that
// returns it. The function must not call methods of the Conn.
type Observer func(Event)

// SetObserver replaces the Conn's Observer; nil removes it. SetObserver may be called at
// any time from any goroutine, but not from the Observer.
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
