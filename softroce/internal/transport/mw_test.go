// Tests of memory windows: binding, access by the peer, and unbinding.

package transport

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

const bindable = allAccess | verbs.AccessMWBind

// testMW is a memory window and a memory region of 4096 bytes in b's domain.
type testMW struct {
	b   *end
	mw  *verbs.MW
	mr  *verbs.MR
	mem []byte
}

func newTestMW(t *testing.T, b *end, kind verbs.MWType, access verbs.Access) *testMW {
	t.Helper()
	pd := b.verbsPD()
	w := &testMW{b: b, mem: alignedBytes(4096)}
	var err error
	if w.mr, err = pd.RegMR(w.mem, access); err != nil {
		t.Fatal(err)
	}
	if w.mw, err = pd.AllocMW(kind); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.mw.Close(); err != nil {
			t.Error(err)
		}
		if err := w.mr.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// part returns a bind to n bytes from off on.
func (w *testMW) part(off, n int, access verbs.Access) verbs.MWBind {
	return verbs.MWBind{MW: w.mw, MR: w.mr, RKey: verbs.IncRKey(w.mw.RKey()), Addr: w.mr.Addr() + uint64(off), Length: uint64(n), Access: access}
}

// bind binds the window and checks the status of the completion.
func (w *testMW) bind(t *testing.T, id uint64, b verbs.MWBind, status verbs.WCStatus) {
	t.Helper()
	if w.mw.Type() == verbs.MWType2 {
		w.b.send(verbs.SendWR{ID: id, Opcode: verbs.OpBindMW, Bind: &b})
	} else if err := w.b.qp.BindMW(id, 0, &b); err != nil {
		t.Fatal(err)
	}
	w.b.want(w.b.scq, id, status, verbs.WCBindMW)
}

// write returns a WRITE of 8 bytes to addr through the window.
func (w *testMW) write(from *end, id, addr uint64, rkey uint32) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.sge(0, 8)}, RemoteAddr: addr, RKey: rkey}
}

// TestBindsOfAnotherDeviceAreRefused binds objects of one device on a queue pair of another.
func TestBindsOfAnotherDeviceAreRefused(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	for _, kind := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		theirs, mine := newTestMW(t, b, kind, bindable), newTestMW(t, a, kind, bindable)
		mixed := mine.part(0, 64, allAccess)
		mixed.MR = theirs.mr
		for name, bind := range map[string]verbs.MWBind{"the window": theirs.part(0, 64, allAccess), "the region": mixed} {
			var err error
			if kind == verbs.MWType1 {
				err = a.qp.BindMW(1, 0, &bind)
			} else {
				_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: &bind}})
			}
			if err != syscall.EINVAL {
				t.Errorf("%v: %s of another device: %v, want EINVAL", kind, name, err)
			}
		}
	}
}

func TestWindowsOpenAndClose(t *testing.T) {
	for _, kind := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		t.Run(kind.String(), func(t *testing.T) {
			_, a, b := pair(t, 1, defaults())
			w := newTestMW(t, b, kind, bindable)
			first := w.mw.RKey()
			fill(a.mem[:8], 1)
			w.bind(t, 1, w.part(100, 50, verbs.AccessRemoteWrite), verbs.WCSuccess)
			if w.mw.RKey()>>8 != first>>8 || w.mw.RKey() == first {
				t.Errorf("key %#x became %#x", first, w.mw.RKey())
			}
			a.send(w.write(a, 2, w.mr.Addr()+142, w.mw.RKey())) // to the last byte
			a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
			if !bytes.Equal(w.mem[142:150], a.mem[:8]) || w.mem[150] != 0 {
				t.Errorf("the memory is % x", w.mem[140:152])
			}
			if err := w.mr.Close(); err == nil || !isErrno(err, syscall.EBUSY) {
				t.Errorf("closing the region of a bound window: %v, want EBUSY", err)
			}
			a.send(w.write(a, 3, w.mr.Addr()+143, w.mw.RKey())) // one byte beyond it
			a.want(a.scq, 3, verbs.WCRemAccessErr, 0)
			b.wantEvent(verbs.EventQPAccessErr)
		})
	}
}

func isErrno(err error, errno syscall.Errno) bool {
	e, ok := err.(*verbs.Error)
	return ok && e.Errno == errno
}

// TestWindowRefuses checks that a window refuses accesses that it does not allow.
func TestWindowRefuses(t *testing.T) {
	all := verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	for name, try := range map[string]func(w *testMW, a *end) verbs.SendWR{
		"below":       func(w *testMW, a *end) verbs.SendWR { return w.write(a, 9, w.mr.Addr()+99, w.mw.RKey()) },
		"the old key": func(w *testMW, a *end) verbs.SendWR { return w.write(a, 9, w.mr.Addr()+100, w.mw.RKey()-1) },
		"no right to it": func(w *testMW, a *end) verbs.SendWR {
			wr := w.write(a, 9, w.mr.Addr()+104, w.mw.RKey())
			wr.Opcode = verbs.OpAtomicFetchAndAdd
			return wr
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, a, b := pair(t, 1, defaults())
			w := newTestMW(t, b, verbs.MWType2, bindable)
			w.bind(t, 1, w.part(100, 50, all), verbs.WCSuccess)
			wr := try(w, a)
			wr.RemoteAddr -= (wr.RemoteAddr % 8) * uint64(btoi(wr.Opcode == verbs.OpAtomicFetchAndAdd))
			a.send(wr)
			a.want(a.scq, 9, verbs.WCRemAccessErr, 0)
			b.wantEvent(verbs.EventQPAccessErr)
			if !bytes.Equal(w.mem, make([]byte, len(w.mem))) {
				t.Error("a refused request changed the memory")
			}
		})
	}
	t.Run("as an lkey", func(t *testing.T) {
		_, a, b := pair(t, 1, defaults())
		w := newTestMW(t, b, verbs.MWType1, bindable)
		w.bind(t, 1, w.part(0, 64, all), verbs.WCSuccess)
		a.recv(verbs.RecvWR{})
		b.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGL: []verbs.SGE{{Addr: w.mr.Addr(), Length: 8, LKey: w.mw.RKey()}}})
		b.want(b.scq, 2, verbs.WCLocProtErr, 0)
	})
	t.Run("another queue pair", func(t *testing.T) {
		n, a, b := pair(t, 1, defaults())
		c, d := n.nodes[0].end(defaults()), sibling(t, b)
		c.connect(d)
		d.connect(c)
		one, two := newTestMW(t, b, verbs.MWType1, bindable), newTestMW(t, b, verbs.MWType2, bindable)
		one.bind(t, 1, one.part(0, 64, all), verbs.WCSuccess)
		two.bind(t, 2, two.part(0, 64, all), verbs.WCSuccess)
		c.send(one.write(c, 3, one.mr.Addr(), one.mw.RKey())) // any queue pair of the domain may use type 1
		c.want(c.scq, 3, verbs.WCSuccess, verbs.WCRDMAWrite)
		c.send(two.write(c, 4, two.mr.Addr(), two.mw.RKey())) // only the queue pair of the bind may use type 2B
		c.want(c.scq, 4, verbs.WCRemAccessErr, 0)
		d = sibling(t, b)
		d.connect(a)
		d.send(verbs.SendWR{ID: 5, Opcode: verbs.OpLocalInv, InvalidateRKey: two.mw.RKey()})
		d.want(d.scq, 5, verbs.WCMWBindErr, 0)
		a.send(two.write(a, 6, two.mr.Addr(), two.mw.RKey()))
		a.want(a.scq, 6, verbs.WCSuccess, verbs.WCRDMAWrite)
	})
}

// sibling returns an end with e's objects but its own queue pair.
func sibling(t *testing.T, e *end) *end {
	t.Helper()
	s := *e
	var err error
	if s.qp, err = e.pd.CreateQP(QPInit{Type: e.opts.kind, SendCQ: e.scq, RecvCQ: e.rcq, Cap: e.opts.cap, SigAll: true}); err != nil {
		t.Fatal(err)
	}
	return &s
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestInvalidate invalidates a window, from the peer and from this side, and binds it again
// each time.
func TestInvalidate(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	w := newTestMW(t, b, verbs.MWType2, bindable)
	write := func(id uint64) verbs.SendWR { return w.write(a, id, w.mr.Addr(), w.mw.RKey()) }
	w.bind(t, 1, w.part(0, 64, verbs.AccessRemoteWrite), verbs.WCSuccess)
	b.recv(verbs.RecvWR{ID: 2})
	key := w.mw.RKey()
	a.send(write(3), verbs.SendWR{ID: 4, Opcode: verbs.OpSendWithInvalidate, InvalidateRKey: key})
	a.want(a.scq, 3, verbs.WCSuccess, verbs.WCRDMAWrite)
	a.want(a.scq, 4, verbs.WCSuccess, verbs.WCSend)
	if wc := b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecv); wc.InvalidatedRKey() != key {
		t.Errorf("the completion has the invalidated key %#x", wc.InvalidatedRKey())
	}
	w.bind(t, 5, w.part(0, 64, verbs.AccessRemoteWrite), verbs.WCSuccess)
	a.send(write(6))
	a.want(a.scq, 6, verbs.WCSuccess, verbs.WCRDMAWrite)
	b.send(verbs.SendWR{ID: 7, Opcode: verbs.OpLocalInv, InvalidateRKey: w.mw.RKey()})
	b.want(b.scq, 7, verbs.WCSuccess, verbs.WCLocalInv)
	a.send(write(8))
	a.want(a.scq, 8, verbs.WCRemAccessErr, 0)

	for name, key := range map[string]func(*end) uint32{
		"a region":          func(a *end) uint32 { return a.mr.RKey() },
		"type 1":            func(a *end) uint32 { return boundKey(t, a, verbs.MWType1) },
		"an unknown key":    func(*end) uint32 { return 0x12345678 },
		"an unbound window": func(a *end) uint32 { return newTestMW(t, a, verbs.MWType2, bindable).mw.RKey() },
		"an old key":        func(a *end) uint32 { return boundKey(t, a, verbs.MWType2) - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			_, a, _ := pair(t, 1, defaults())
			a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpLocalInv, InvalidateRKey: key(a)})
			a.want(a.scq, 1, verbs.WCMWBindErr, 0)
		})
	}
}

func boundKey(t *testing.T, e *end, kind verbs.MWType) uint32 {
	w := newTestMW(t, e, kind, bindable)
	w.bind(t, 77, w.part(0, 64, verbs.AccessRemoteWrite), verbs.WCSuccess)
	return w.mw.RKey()
}

// TestBadBinds checks that a bad bind ends the queue pair and leaves the window unchanged.
func TestBadBinds(t *testing.T) {
	both := []verbs.MWType{verbs.MWType1, verbs.MWType2}
	for _, c := range []struct {
		name   string
		access verbs.Access
		kinds  []verbs.MWType
		spoil  func(w *testMW, b *verbs.MWBind)
	}{
		{"a region without MW_BIND", allAccess, both, func(*testMW, *verbs.MWBind) {}},
		{"a right to write in a read-only region", verbs.AccessRemoteRead | verbs.AccessMWBind, both, func(*testMW, *verbs.MWBind) {}},
		{"before the region", bindable, both, func(_ *testMW, b *verbs.MWBind) { b.Addr-- }},
		{"beyond the region", bindable, both, func(_ *testMW, b *verbs.MWBind) { b.Length = 4097 }},
		{"to the end of the address space", bindable, both, func(_ *testMW, b *verbs.MWBind) { b.Length = ^uint64(0) }},
		{"a local right", bindable, both, func(_ *testMW, b *verbs.MWBind) { b.Access |= verbs.AccessLocalWrite }},
		{"0 bytes", bindable, both[1:], func(_ *testMW, b *verbs.MWBind) { b.Length = 0 }},
		{"zero-based", bindable, both[:1], func(_ *testMW, b *verbs.MWBind) { b.Access |= verbs.AccessZeroBased }},
	} {
		for _, kind := range c.kinds {
			t.Run(c.name+" "+kind.String(), func(t *testing.T) {
				_, _, b := pair(t, 1, defaults())
				w := newTestMW(t, b, kind, c.access)
				bind := w.part(0, 64, verbs.AccessRemoteWrite)
				c.spoil(w, &bind)
				w.bind(t, 1, bind, verbs.WCMWBindErr)
				b.wantState(qpstate.Error)
			})
		}
	}
	t.Run("twice", func(t *testing.T) {
		_, _, b := pair(t, 1, defaults())
		w := newTestMW(t, b, verbs.MWType2, bindable)
		w.bind(t, 1, w.part(0, 64, verbs.AccessRemoteWrite), verbs.WCSuccess)
		w.bind(t, 2, w.part(0, 64, verbs.AccessRemoteWrite), verbs.WCMWBindErr)
	})
	t.Run("refused when posted", func(t *testing.T) {
		_, _, b := pair(t, 1, defaults())
		w := newTestMW(t, b, verbs.MWType2, bindable)
		one := newTestMW(t, b, verbs.MWType1, bindable)
		wrongKey := w.part(0, 64, verbs.AccessRemoteWrite)
		wrongKey.RKey ^= 0x100
		for name, bind := range map[string]*verbs.MWBind{
			"nothing": nil, "no window": {MR: w.mr}, "no region": {MW: w.mw, RKey: w.mw.RKey()},
			"type 1": {MW: one.mw, MR: one.mr, RKey: one.mw.RKey()}, "another window's key": &wrongKey,
		} {
			if n, err := b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: bind}}); n != 0 || err != syscall.EINVAL {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if err := b.qp.BindMW(1, 0, &wrongKey); err != syscall.EINVAL {
			t.Errorf("type 2 by BindMW: %v", err)
		}
	})
}

// TestRebind binds a type 1 window again and again. A bind of 0 bytes unbinds it.
func TestRebind(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	w := newTestMW(t, b, verbs.MWType1, bindable)
	for i := range uint64(300) { // the key's 8 bits wrap around
		off := int(i) * 8
		w.bind(t, i, w.part(off, 8, verbs.AccessRemoteWrite), verbs.WCSuccess)
		a.send(w.write(a, i, w.mr.Addr()+uint64(off), w.mw.RKey()))
		a.want(a.scq, i, verbs.WCSuccess, verbs.WCRDMAWrite)
	}
	w.bind(t, 400, w.part(0, 0, 0), verbs.WCSuccess)
	a.send(w.write(a, 401, w.mr.Addr(), w.mw.RKey()))
	a.want(a.scq, 401, verbs.WCRemAccessErr, 0)
	if err := w.mr.Close(); err != nil {
		t.Errorf("closing the region after its window was unbound: %v", err)
	}
}

// TestFlushedBind flushes binds in various ways. The bind that was executed before them stays
// valid, and the window can be bound again, on this queue pair or on another.
func TestFlushedBind(t *testing.T) {
	for _, kind := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		for name, flush := range map[string]func(b *end){
			"posted in ERR":  func(b *end) { b.modify(qpstate.Attr{State: qpstate.Error}, 0) },
			"a failed send":  func(b *end) { b.send(verbs.SendWR{ID: 90, Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1}}}) },
			"moved to ERR":   nil,
			"moved to RESET": nil,
			"closed":         nil,
		} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				n, a, b := pair(t, 1, defaults())
				w := newTestMW(t, b, kind, bindable)
				first := w.part(0, 8, verbs.AccessRemoteWrite)
				w.bind(t, 1, first, verbs.WCSuccess)
				first.RKey = w.mw.RKey()
				c, d := n.nodes[0].end(defaults()), sibling(t, b)
				c.connect(d)
				d.connect(c)
				if flush != nil {
					flush(b)
				} else { // an unanswered READ delays the binds
					n.tap = func(*simnode, *simnode, []byte) bool { return false }
					b.send(verbs.SendWR{ID: 91, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{b.sge(0, 8)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()})
				}
				for range 3 {
					bind := w.part(8, 8, verbs.AccessRemoteWrite)
					if kind == verbs.MWType2 {
						b.send(verbs.SendWR{ID: 2, Opcode: verbs.OpBindMW, Flags: verbs.SendFence, Bind: &bind})
					} else if err := b.qp.BindMW(2, verbs.SendFence, &bind); err != nil {
						t.Fatal(err)
					}
				}
				n.transmit()
				switch name {
				case "moved to ERR":
					b.modify(qpstate.Attr{State: qpstate.Error}, 0)
				case "moved to RESET":
					b.modify(qpstate.Attr{State: qpstate.Reset}, 0)
				case "closed":
					b.qp.Close()
				}
				n.tap = nil
				for b.scq.Poll(make([]verbs.WC, 1)) > 0 {
				}
				if kind == verbs.MWType1 {
					c.send(w.write(c, 3, first.Addr, first.RKey))
					c.want(c.scq, 3, verbs.WCSuccess, verbs.WCRDMAWrite)
				} else { // b's bind is valid, and must be invalidated first
					verbs.ProviderOf(w.mw).(*MW).unbind()
				}
				second := w.part(16, 8, verbs.AccessRemoteWrite)
				w.b = d
				w.bind(t, 4, second, verbs.WCSuccess)
				c.send(w.write(c, 5, second.Addr, w.mw.RKey()))
				c.want(c.scq, 5, verbs.WCSuccess, verbs.WCRDMAWrite)
			})
		}
	}
}

// TestZeroBasedWindow uses a window whose addresses begin at 0.
func TestZeroBasedWindow(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	w := newTestMW(t, b, verbs.MWType2, bindable)
	fill(a.mem[:8], 3)
	w.bind(t, 1, w.part(500, 16, verbs.AccessRemoteWrite|verbs.AccessZeroBased), verbs.WCSuccess)
	a.send(w.write(a, 2, 8, w.mw.RKey()))
	a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMAWrite)
	if !bytes.Equal(w.mem[508:516], a.mem[:8]) {
		t.Errorf("the memory is % x", w.mem[500:520])
	}
}

// TestBindIsOrdered binds, uses, invalidates and binds again in one chain, over a network that
// loses packets. The requests must be executed in order.
func TestBindIsOrdered(t *testing.T) {
	n, a, b := pair(t, 7, defaults())
	n.faults.Loss = 0.1
	w := newTestMW(t, b, verbs.MWType2, bindable)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(50) {
		off := rng.IntN(4000)
		bind := w.part(off, 8, verbs.AccessRemoteWrite)
		a.recv(verbs.RecvWR{ID: i})
		b.send(verbs.SendWR{ID: 1, Opcode: verbs.OpBindMW, Bind: &bind}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
		b.want(b.scq, 1, verbs.WCSuccess, verbs.WCBindMW)
		a.want(a.rcq, i, verbs.WCSuccess, verbs.WCRecv)
		b.recv(verbs.RecvWR{ID: i})
		a.send(w.write(a, 3, bind.Addr, bind.RKey), verbs.SendWR{ID: 4, Opcode: verbs.OpSendWithInvalidate, InvalidateRKey: bind.RKey})
		a.want(a.scq, 3, verbs.WCSuccess, verbs.WCRDMAWrite)
		a.want(a.scq, 4, verbs.WCSuccess, verbs.WCSend)
		b.want(b.scq, 2, verbs.WCSuccess, verbs.WCSend)
		b.want(b.rcq, i, verbs.WCSuccess, verbs.WCRecv)
	}
}

// TestRereg changes a region's memory, address and domain.
func TestRereg(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	other := alignedBytes(64)
	if err := b.mr.Rereg(b.pd, other, 0x1000, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		t.Fatal(err)
	}
	fill(a.mem[:8], 5)
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: 0x1008, RKey: b.mr.RKey()})
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
	if !bytes.Equal(other[8:16], a.mem[:8]) {
		t.Errorf("the memory is % x", other)
	}
	if err := b.mr.Rereg(b.pd, nil, 0, 0); err != syscall.EINVAL {
		t.Errorf("Rereg to an empty slice: %v, want EINVAL", err)
	}
	if err := b.mr.Rereg(b.node.domain(), other, 0x1000, allAccess); err != nil {
		t.Fatal(err)
	}
	a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: 0x1008, RKey: b.mr.RKey()})
	a.want(a.scq, 2, verbs.WCRemAccessErr, 0)
}
