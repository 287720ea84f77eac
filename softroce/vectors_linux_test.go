// Tests of devices whose addresses have several sockets.

package softroce_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
	"github.com/rawverbs/rawverbs/verbs/verbstest"
)

func TestConformanceWithVectors(t *testing.T) {
	openFour(t) // or skip
	quirks := maps.Clone(verbstest.Quirks(t, "soft0"))
	quirks["device/listed by name"] = "devices of tests are not listed"
	verbstest.Run(t, softroce.FourVectorsName, quirks)
}

// openFour opens a device with four completion vectors, or skips the test.
func openFour(tb testing.TB) *verbs.Device {
	tb.Helper()
	dev, err := verbs.Open(softroce.FourVectorsName)
	if err != nil {
		tb.Skip(err)
	}
	tb.Cleanup(func() {
		if err := dev.Close(); err != nil {
			tb.Error(err)
		}
	})
	return dev
}

// TestVectors sends over many queue pairs of UC at once, in both directions. Each packet must go to the socket of its queue
// pair. If packets of one queue pair came by several sockets, their order would change, and messages would be lost.
func TestVectors(t *testing.T) {
	x, y := openFour(t), openFour(t)
	sendMessages(t, x, y)
	for _, d := range []*verbs.Device{x, y} {
		received := softroce.ReceivedBySocket(d)
		idle := func(n uint64) bool { return n == 0 }
		if len(received) != 4 || slices.ContainsFunc(received, idle) {
			t.Errorf("packets by socket: %v, want 4 sockets, all busy", received)
		}
	}
}

// TestVectorLeads checks that a goroutine which waits for a CQ receives the packets of its queue pairs itself, whatever the vector.
func TestVectorLeads(t *testing.T) {
	x, y := openFour(t), openFour(t)
	for range 4 {
		s := newStream(t, x, y, verbs.OpRDMAWrite, mib)
		cq := s.conn.QP().SendCQ()
		if qpn := s.conn.QP().QPN(); int(qpn%4) != cq.Vector() {
			t.Errorf("queue pair %d has a CQ of vector %d", qpn, cq.Vector())
		}
		before := softroce.LedAt(cq)
		testkit.Until(t, "leader", func() bool {
			s.run(t, 1)
			return softroce.LedAt(cq) > before
		})
	}
}

// sendMessages sends messages over many queue pairs between two devices, in both directions.
func sendMessages(t *testing.T, x, y *verbs.Device) {
	const qps, messages, size = 16, 200, 10_000
	var all sync.WaitGroup
	for range qps {
		a, b := connect(t, x, y, rc.Config{Type: verbs.UC, Cap: verbs.QPCap{MaxSendWR: messages, MaxRecvWR: messages, MaxSendSGE: 1, MaxRecvSGE: 1}})
		for _, dir := range [][2]*rc.Conn{{a, b}, {b, a}} {
			from, to := newMessages(t, dir[0], messages, size), newMessages(t, dir[1], messages, size)
			for i := range messages {
				if err := to.conn.QP().PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{to.mr.SGE(i*size, size)}}}); err != nil {
					t.Fatal(err)
				}
			}
			all.Go(func() { from.send(t) })
			all.Go(func() { to.receive(t) })
		}
	}
	all.Wait()
}

// messages is memory for messages of one size, which go from one end of a connection to the other.
type messages struct {
	conn    *rc.Conn
	mr      *verbs.MR
	n, size int
}

func newMessages(t *testing.T, c *rc.Conn, n, size int) *messages {
	mr, err := c.AllocMR("messages", n*size, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	return &messages{c, mr, n, size}
}

// length returns the length of message i. Most are of one size, so that packets of several queue pairs could share a burst.
func (m *messages) length(i int) int {
	if i%10 == 9 {
		return m.size
	}
	return 64
}

func (m *messages) send(t *testing.T) {
	for i := range m.n {
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{m.mr.SGE(i*m.size, m.length(i))}}
		if err := m.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Error(err)
			return
		}
	}
	if _, err := m.conn.QP().SendCQ().Wait(testkit.Context(t), make([]verbs.WC, m.n)); err != nil {
		t.Error(err)
	}
}

func (m *messages) receive(t *testing.T) {
	ctx := testkit.Context(t)
	wcs := make([]verbs.WC, m.n)
	for got := 0; got < m.n; {
		n, err := m.conn.QP().RecvCQ().Wait(ctx, wcs)
		if err != nil {
			t.Errorf("%d of %d messages: %v", got, m.n, err)
			return
		}
		for _, wc := range wcs[:n] {
			if wc.Err() != nil || wc.ID != uint64(got) || int(wc.ByteLen) != m.length(got) {
				t.Errorf("message %d: %v", got, wc)
				return
			}
			got++
		}
	}
}

// TestOneSocket checks which devices have one socket per address: those with small receive buffers, and those that are
// attended.
func TestOneSocket(t *testing.T) {
	softroce.SetVectors(t, 4)
	if n := len(softroce.ReceivedBySocket(openSoft(t, softroce.SmallBufferName))); n != 1 {
		t.Errorf("a small buffer: %d sockets", n)
	}
	attended, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	defer attended.Close()
	if _, err := verbs.ProviderOf(attended).(interface{ Attend(*int32) (int, error) }).Attend(new(int32)); err != nil {
		t.Fatal(err)
	}
	if n := len(softroce.ReceivedBySocket(attended)); n != 1 {
		t.Errorf("attended: %d sockets", n)
	}
}
