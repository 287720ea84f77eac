// Tests of devices whose addresses have several sockets.

package softroce_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/internal/verbstest"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

func TestConformanceWithShards(t *testing.T) {
	openSpread(t) // or skip
	quirks := maps.Clone(verbstest.Quirks(t, "soft0"))
	quirks["device/listed by name"] = "devices of tests are not listed"
	verbstest.Run(t, softroce.SpreadName, quirks)
}

// openSpread opens a device whose packets are spread, or skips the test.
func openSpread(tb testing.TB) *verbs.Device {
	tb.Helper()
	dev, err := verbs.Open(softroce.SpreadName)
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

// TestShards sends over many queue pairs of UC at once, in both directions. Each packet must go to the socket of its queue
// pair. If packets of one queue pair came by several sockets, their order would change, and messages would be lost.
func TestShards(t *testing.T) {
	x, y := openSpread(t), openSpread(t)
	sendMessages(t, x, y)
	for _, d := range []*verbs.Device{x, y} {
		received := softroce.ReceivedBySocket(d)
		idle := func(n uint64) bool { return n == 0 }
		if busy := len(slices.DeleteFunc(slices.Clone(received[1:]), idle)); received[0] > 0 || busy < 2 || len(received) != 5 {
			t.Errorf("packets by socket: %v, want none, and then 4 sockets, most of them busy", received)
		}
	}
}

// TestSwitch spreads and gathers packets again and again, while they arrive.
func TestSwitch(t *testing.T) {
	x, y := openSpread(t), openSpread(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendMessages(t, x, y)
	}()
	switches := 0
	for spread := false; ; spread = !spread {
		select {
		case <-done:
			if switches < 4 {
				t.Errorf("%d switches", switches)
			}
			return
		default:
			softroce.Spread(x, spread)
			softroce.Spread(y, spread)
			switches++
		}
	}
}

// TestSpreads sends to a device that receives slowly, because its packets are captured. More packets come than the device can
// receive, and yet every switch must end. TestLook checks when the device begins one itself.
func TestSpreads(t *testing.T) {
	openSpread(t) // or skip
	softroce.SetShards(t, 2)
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	var captured atomic.Int64
	stop, err := softroce.Capture(y, func(time.Time, []byte) error {
		captured.Add(1)
		for end := time.Now().Add(20 * time.Microsecond); time.Now().Before(end); {
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var senders sync.WaitGroup
	var enough atomic.Bool
	defer senders.Wait()
	defer enough.Store(true)
	for range 8 {
		s, _ := newUCStream(t, x, y)
		senders.Go(func() {
			for !enough.Load() {
				s.post(t, 50)
			}
		})
	}
	for _, spread := range []bool{true, false, true, false} {
		before := captured.Load()
		testkit.Until(t, "thousand packets that arrive", func() bool { return captured.Load() >= before+1000 })
		switched := make(chan struct{})
		go func() {
			defer close(switched)
			softroce.Spread(y, spread)
		}()
		testkit.Receive(t, switched, fmt.Sprintf("end of a switch (spread %v)", spread))
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
	softroce.SetShards(t, 4)
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
