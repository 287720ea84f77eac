package report

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/pcap"
)

// again logs the server's events of the recorded run as a client's.
func again(t *testing.T, c *Client) {
	t.Helper()
	record := readRecord(t)
	for i := range record.Events {
		e := &record.Events[i]
		if e.End != trace.EndServer {
			continue
		}
		r := slog.NewRecord(e.Time, e.Level, e.Message, 0)
		r.AddAttrs(slog.String("event", e.Event), slog.String("verb", e.Verb), slog.String("path", e.Path))
		r.AddAttrs(e.Attrs...)
		if err := c.Handler().Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// A page gets the packets of a client once they belong to it, all that are kept.
func TestLiveDrawsPackets(t *testing.T) {
	l, url := serveLive(t)
	s := open(t, url)
	c := l.Begin("server/1", "")
	c.Job("write-read")
	packets := captured(t)
	if err := l.Packet(packets[0].At, packets[0].IP); err != nil || len(c.packets.head) != 0 {
		t.Fatalf("a packet before the queue pairs are known: %d kept, %v", len(c.packets.head), err)
	}
	again(t, c)
	for _, p := range packets {
		if err := l.Packet(p.At, p.IP); err != nil {
			t.Fatal(err)
		}
	}
	for {
		m, more := s.next(t)
		if !more {
			t.Fatal("no packets came")
		}
		if len(m.Packets) == 0 {
			continue
		}
		sent, received := 0, 0
		for _, p := range m.Packets {
			if p.Sent != "" && p.From == trace.EndServer {
				sent++
			}
			if p.Received != "" && p.From == trace.EndClient {
				received++
			}
			if p.Shape >= len(m.Shapes) {
				t.Errorf("shape %d of %d", p.Shape, len(m.Shapes))
			}
		}
		if sent+received != len(packets) || sent == 0 || received == 0 {
			t.Errorf("%d packets sent and %d received, want %d together", sent, received, len(packets))
		}
		if len(m.Captures) != 1 || m.Captures[0].Name != "soft0" || m.Captures[0].End != trace.EndServer {
			t.Errorf("captures: %+v", m.Captures)
		}
		return
	}
}

// A client gets the packets of the queue pairs that it has named only once it is connected, and none that are another's.
func TestLiveBelievesNoClaim(t *testing.T) {
	l := NewLive("soft0")
	packet := captured(t)[0]
	to, _ := receiver(packet.IP)
	names := func(c *Client) {
		log := slog.New(c.Handler())
		for _, side := range []string{"local", "remote"} {
			event.PeerTuple.Log(log, side+" endpoint", slog.String("side", side), slog.String("qpn", hex24(to.qpn)), slog.String("gid", to.ip.String()))
		}
	}
	moves := func(c *Client, state string) {
		event.QPTransition.Log(slog.New(c.Handler()), "INIT→"+state, slog.String("qpn", hex24(to.qpn)), slog.String("to", state))
	}
	liar := l.Begin("server/1", "")
	names(liar)
	moves(liar, "ERR") // it was refused
	if l.Wants(to.ip, to.qpn) {
		t.Error("a client owns a queue pair that it has named and not connected to")
	}
	honest, second := l.Begin("server/2", ""), l.Begin("server/3", "")
	for _, c := range []*Client{honest, second} {
		names(c)
		moves(c, "RTR")
	}
	second.Remove()
	if err := l.Packet(packet.At, packet.IP); err != nil || len(honest.packets.head) != 1 {
		t.Errorf("the client has %d packets, want 1; %v", len(honest.packets.head), err)
	}
}

// captured returns the packets that the server's device saw in the recorded run.
func captured(t *testing.T) (all []pcap.Packet) {
	t.Helper()
	file, err := os.Open("testdata/server.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packets, err := pcap.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for p, err := packets.Next(); err == nil; p, err = packets.Next() {
		p.IP = append([]byte(nil), p.IP...)
		all = append(all, p)
	}
	if len(all) < 4 {
		t.Fatalf("%d packets", len(all))
	}
	return all
}

// Only the first packets of a client are kept, and none after the client is forgotten.
func TestLiveKeepsFewPackets(t *testing.T) {
	l := NewLive("soft0")
	c := l.Begin("server/1", "")
	c.Job("write-read")
	again(t, c)
	packets := captured(t)
	for range keptPackets {
		for _, p := range packets {
			if err := l.Packet(time.Now(), p.IP); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept, omitted := len(c.packets.head), int(c.omitted.Load()); kept != keptPackets || kept+omitted != keptPackets*len(packets) {
		t.Errorf("%d packets kept, %d omitted", kept, omitted)
	}
	p := l.watch()
	defer p.stop()
	draw := func() (drawn []*drawing) {
		p.news(true, func(n *news) bool {
			if n.Drawing != nil {
				drawn = append(drawn, n.Drawing)
			}
			return true
		})
		return drawn
	}
	if drawn := draw(); len(drawn) != 1 || len(drawn[0].Packets) == 0 || drawn[0].Captures[0].Omitted == 0 {
		t.Errorf("%+v", drawn)
	}
	if drawn := draw(); len(drawn) != 0 {
		t.Errorf("the same packets are drawn again: %+v", drawn)
	}
	c.End(errors.New("over"))
	if drawn := draw(); len(drawn) != 1 {
		t.Errorf("at the end %d drawings", len(drawn))
	}
	c.Remove()
	if drawn := draw(); len(drawn) != 0 || len(p.has) != 0 || c.packets.head != nil {
		t.Errorf("a page keeps %d clients that are forgotten, and draws %d", len(p.has), len(drawn))
	}
	for to := range l.wire.clients.Range {
		t.Errorf("%v has an owner", to)
	}
}

// Packets are wanted while they are kept, and only those of clients. To find that out takes no lock, and
// allocates nothing.
func TestLiveWantsFewPackets(t *testing.T) {
	l := NewLive("soft0")
	packet := captured(t)[0].IP
	to, _ := receiver(packet)
	if l.Wants(to.ip, to.qpn) {
		t.Error("a packet is wanted before its queue pair is known")
	}
	c := l.Begin("server/1", "")
	again(t, c)
	for range keptPackets {
		if !l.Wants(to.ip, to.qpn) {
			t.Fatalf("after %d packets no more are wanted", len(c.packets.head))
		}
		if err := l.Packet(time.Now(), packet); err != nil {
			t.Fatal(err)
		}
	}
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	const calls = 100
	if n := testing.AllocsPerRun(calls, func() {
		if l.Wants(to.ip, to.qpn) || l.Wants(to.ip, to.qpn^1<<23) {
			t.Error("a packet is wanted that is not kept")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := c.omitted.Load(); n != calls+1 { // AllocsPerRun calls once more
		t.Errorf("%d packets omitted; want %d", n, calls+1)
	}
}

func TestReceiver(t *testing.T) {
	packets := captured(t)
	if to, ok := receiver(packets[0].IP); !ok || !to.ip.Is4() || to.qpn == 0 {
		t.Errorf("%+v %v", to, ok)
	}
	for _, short := range [][]byte{nil, {0x45}, packets[0].IP[:39], {0x60}} {
		if to, ok := receiver(short); ok {
			t.Errorf("% x goes to %+v", short, to)
		}
	}
	six := append([]byte{0x60}, make([]byte, 39+8+12)...)
	six[39], six[40+8+5], six[40+8+7] = 1, 2, 3
	if to, ok := receiver(six); !ok || to != (address{netip.IPv6Loopback(), 0x020003}) {
		t.Errorf("%+v %v", to, ok)
	}
}
