package rnet

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// hostile is a peer that speaks the protocol by hand.
type hostile struct {
	*rc.Conn
	mr   *verbs.MR
	ring oob.Region
}

// attack connects a hostile peer to a listener. change may change its parameters and its region.
func attack(ctx context.Context, dev *verbs.Device, address string, params map[string]string, ring int) (*hostile, error) {
	h := &hostile{}
	cfg := rc.Config{
		Device: dev, Job: jobName, Params: params, OneCQ: true, Access: verbs.AccessRemoteWrite,
		Cap: verbs.QPCap{MaxSendWR: 1024, MaxRecvWR: receives},
		Prepare: func(c *rc.Conn) (err error) {
			if h.mr, err = c.AllocMR("ring", max(ring, 1), verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
				return err
			}
			if ring > 0 {
				c.Share(ringName, h.mr)
			}
			return c.QP().PostRecv(make([]verbs.RecvWR, receives))
		},
	}
	c, err := rc.Dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	h.Conn = c
	h.ring, _ = c.PeerRegion(ringName)
	return h, nil
}

// write writes n bytes at an offset of the victim's ring, with any immediate.
func (h *hostile) write(off uint64, n int, imm uint32) error {
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: imm, RemoteAddr: h.ring.Addr + off, RKey: h.ring.RKey}
	if n > 0 {
		wr.SGL = []verbs.SGE{h.mr.SGE(0, n)}
	}
	return h.QP().PostSend([]verbs.SendWR{wr})
}

// victims returns a listener and a Conn of an honest peer, which must survive every attack.
func victims(t *testing.T) (l *Listener, attackers *verbs.Device) {
	l, d := listen(t, ListenConfig{})
	honest, peer := l.dial(t, d), l.accept(t)
	t.Cleanup(func() {
		if _, err := honest.Write([]byte("x")); err != nil {
			t.Errorf("the honest peer: %v", err)
		}
		if _, err := peer.Read(make([]byte, 1)); err != nil {
			t.Errorf("the honest peer: %v", err)
		}
	})
	return l, d.Device
}

// attacked returns a hostile peer and the listener's Conn with it.
func (l *Listener) attacked(t *testing.T, dev *verbs.Device) (h *hostile, victim *Conn) {
	t.Helper()
	h, err := attack(t.Context(), dev, l.Addr().String(), helloParams(minRing), minRing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, l.accept(t)
}

// TestHostileCounts: a peer that lies about its counts ends its own Conn with EPROTO, and nothing else.
func TestHostileCounts(t *testing.T) {
	l, dev := victims(t)
	const eighth = minRing / 8
	for _, test := range []struct {
		name   string
		attack func(h *hostile) error
		want   string
	}{
		{"more credit than bytes", func(h *hostile) error { return h.write(0, 0, arrival{control: true, units: 1}.imm()) }, "freed"},
		{"more credit than bytes, with data", func(h *hostile) error { return h.write(0, 5, arrival{length: 5, units: 1023}.imm()) }, "freed"},
		{"more receives than messages", func(h *hostile) error { return h.write(0, 0, arrival{control: true, messages: 9}.imm()) }, "posted 9 receives"},
		{"a length that it did not write", func(h *hostile) error { return h.write(0, 5, arrival{length: 4096}.imm()) }, "wrote 5 bytes"},
		{"a huge length", func(h *hostile) error { return h.write(0, 0, arrival{length: 1<<21 - 1}.imm()) }, "wrote 0 bytes"},
		{"data without bytes", func(h *hostile) error { return h.write(0, 0, 0) }, "without bytes"},
		{"unknown bits", func(h *hostile) error { return h.write(0, 0, immControl|1<<28) }, "must be 0"},
		{"a control message without news", func(h *hostile) error { return h.write(0, 0, arrival{control: true}.imm()) }, "nothing new"},
		{"FIN twice", func(h *hostile) error {
			if err := h.write(0, 0, arrival{control: true, fin: true}.imm()); err != nil {
				return err
			}
			return h.write(0, 0, arrival{control: true, fin: true}.imm())
		}, "nothing new"},
		{"more than a message", func(h *hostile) error { return h.write(0, eighth+1, arrival{length: eighth + 1}.imm()) }, "room"},
		{"more than the ring", func(h *hostile) (err error) {
			for i := range 9 {
				err = h.write(uint64(i%8)*eighth, eighth, arrival{length: eighth}.imm())
			}
			return err
		}, "room for 0"},
		{"data after FIN", func(h *hostile) error {
			if err := h.write(0, 0, arrival{control: true, fin: true}.imm()); err != nil {
				return err
			}
			return h.write(0, 5, arrival{length: 5}.imm())
		}, "after its FIN"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, victim := l.attacked(t, dev)
			if err := test.attack(h); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "end of the victim's Conn", func() bool {
				victim.await1()
				victim.turn.Lock()
				defer victim.turn.Unlock()
				return victim.err != nil
			})
			_, err := victim.Write([]byte("x"))
			if !errors.Is(err, syscall.EPROTO) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want EPROTO and %q", err, test.want)
			}
			for ctx := testkit.Context(t); ; {
				wc, err := h.WaitRecv(ctx)
				if err != nil {
					t.Fatalf("no RST came: %v", err)
				}
				if m, _ := parse(wc.Imm()); wc.Opcode == verbs.WCRecvRDMAWithImm && m.rst {
					break
				}
			}
		})
	}
}

// TestForgedOffset: a peer may put its bytes anywhere in the ring, which is its own loss. It cannot
// write outside.
func TestForgedOffset(t *testing.T) {
	l, dev := victims(t)
	h, victim := l.attacked(t, dev)
	copy(h.mr.Bytes(), "elsewhere")
	if err := h.write(5000, 9, arrival{length: 9}.imm()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 20)
	if n, err := victim.Read(buf); n != 9 || err != nil || string(buf[:n]) == "elsewhere" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if err := h.write(minRing-4, 9, arrival{length: 9}.imm()); err != nil {
		t.Fatal(err)
	}
	_, err := victim.Read(buf)
	wantError(t, err, "read", syscall.ECONNRESET)
}

// TestHostileHello: a peer with impossible parameters is refused, and the error says why.
func TestHostileHello(t *testing.T) {
	l, dev := victims(t)
	for name, test := range map[string]struct {
		params map[string]string
		ring   int
		want   string
	}{
		"another version":  {map[string]string{paramVersion: "2", paramRing: "65536", paramReceives: "512"}, minRing, "version"},
		"no parameters":    {nil, minRing, "version"},
		"a huge ring":      {map[string]string{paramVersion: version, paramRing: "1099511627776", paramReceives: "512"}, minRing, "ring"},
		"no receives":      {map[string]string{paramVersion: version, paramRing: "65536", paramReceives: "0"}, minRing, "receives"},
		"a shorter region": {helloParams(minRing), minRing / 2, "region"},
		"no region":        {helloParams(minRing), 0, "region"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := attack(t.Context(), dev, l.Addr().String(), test.params, test.ring)
			if err == nil { // both ends are in RTS when the listener looks at the region
				defer h.Close()
				_, err = h.WaitRecv(testkit.Context(t))
			}
			var refusal *oob.PeerError
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want the peer's refusal with %q", err, test.want)
			}
		})
	}
}
