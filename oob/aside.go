package oob

// Asides: notes that are no part of an exchange's steps and may come at any time.

// OnNote makes notes called name asides: the peer may send an aside at any time, between the
// messages of any step. The goroutine that reads calls f with each aside, so f must not block.
// RecvNote does not return asides. The Observer sees neither received asides nor asides that
// SendNote sends. Call OnNote before the peer may send the first aside. A later OnNote replaces
// name and f.
//
// Asides bypass the flow control of the steps, so f must limit how many it takes. If f is nil,
// or calls OnNote with nil, the peer's later notes of the name are messages of the steps again.
// The notes that SendNote sends stay asides.
func (c *Conn) OnNote(name string, f func(Note)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asideName, c.onAside = name, f
}

// Precede registers f to be called before each message is sent. The notes that f returns are
// sent in front of the message, in the same write. They must be asides at the peer. The
// Observer does not see them. f must not block or call methods of the Conn. A later Precede
// replaces f.
func (c *Conn) Precede(f func() []Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.precede = f
}

// aside returns the function for a note that is an aside, and nil for other messages.
func (c *Conn) aside(t MessageType, name string) func(Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t != TypeNote || c.onAside == nil || name != c.asideName {
		return nil
	}
	return c.onAside
}

// sendsAside reports whether a message that this side sends is an aside.
func (c *Conn) sendsAside(t MessageType, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return t == TypeNote && name == c.asideName
}

// preceded returns a frame with the notes that go ahead of it.
func (c *Conn) preceded(frame []byte) ([]byte, error) {
	c.mu.Lock()
	f := c.precede
	c.mu.Unlock()
	if f == nil {
		return frame, nil
	}
	var all []byte
	for _, n := range f() {
		var err error
		if all, err = appendNote(all, n); err != nil {
			return nil, err
		}
	}
	return append(all, frame...), nil
}
