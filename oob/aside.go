package oob

// Asides: notes beside the steps of an exchange, which may come at any time.

// OnNote makes notes called name asides: the peer may send them at any time, between the
// messages of any step. f is called with each of them by the goroutine that reads, so it
// must not block. RecvNote does not return asides, and the Observer does not see them,
// neither those received nor those that SendNote sends. Call OnNote before the peer may send
// the first. There is one f at a time.
func (c *Conn) OnNote(name string, f func(Note)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asideName, c.onAside = name, f
}

// Precede has f called before each message is sent. The notes that f returns go ahead of the
// message, in the same write, and must be asides at the peer. The Observer does not see them.
// f must not block or call methods of the Conn. There is one f at a time.
func (c *Conn) Precede(f func() []Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.precede = f
}

// aside returns the function that takes m; nil if m is no aside.
func (c *Conn) aside(t MessageType, name string) func(Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t != TypeNote || c.onAside == nil || name != c.asideName {
		return nil
	}
	return c.onAside
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
		if all, err = AppendNote(all, n); err != nil {
			return nil, err
		}
	}
	return append(all, frame...), nil
}
