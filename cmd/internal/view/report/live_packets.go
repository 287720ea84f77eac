// The packets of a server's clients, as its soft device sends and receives them.

package report

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
)

const (
	keptPackets = 512                    // of each client: the first ones
	drawEvery   = 500 * time.Millisecond // new packets come to a page
)

// wire gives each packet to the client that it belongs to.
type wire struct {
	clients sync.Map   // from address to *Client; read for each packet of the device
	mu      sync.Mutex // of the packets that are kept
}

// address is a queue pair of either end, which packets go to.
type address struct {
	ip  netip.Addr
	qpn uint32
}

// Wants reports whether Packet keeps a packet to a queue pair. It counts a packet of a client that has all
// its packets. It takes no lock and copies nothing; see softroce.CaptureOnly.
func (l *Live) Wants(to netip.Addr, qpn uint32) bool {
	owner, ok := l.wire.clients.Load(address{to, qpn})
	if !ok {
		return false
	}
	c := owner.(*Client)
	if c.full.Load() {
		c.omitted.Add(1)
		return false
	}
	return true
}

// Packet keeps a packet that the server's device has sent or received, if it is one of the first packets
// of a client. The device waits for it.
func (l *Live) Packet(at time.Time, ip []byte) error {
	to, ok := receiver(ip)
	if !ok {
		return nil
	}
	owner, ok := l.wire.clients.Load(to)
	if !ok {
		return nil
	}
	c := owner.(*Client)
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	if c.full.Load() {
		c.omitted.Add(1)
		return nil
	}
	err := c.packets.Packet(at, ip)
	c.full.Store(len(c.packets.head) == keptPackets)
	return err
}

// receiver reads from a packet of RoCEv2 which queue pair it goes to. dissect.Parse reads all of a
// packet, which is too slow for each packet of a device.
func receiver(ip []byte) (to address, ok bool) {
	const headers = 8 + 12 // UDP and BTH, which has the number in its bytes 5 to 7
	at := 0
	switch {
	case len(ip) >= 20+headers && ip[0] == 0x45:
		at, to.ip = 20, netip.AddrFrom4([4]byte(ip[16:]))
	case len(ip) >= 40+headers && ip[0]>>4 == 6:
		at, to.ip = 40, netip.AddrFrom16([16]byte(ip[24:]))
	default:
		return to, false
	}
	to.qpn = binary.BigEndian.Uint32(ip[at+8+4:]) & (1<<24 - 1)
	return to, true
}

// own reads in an event which queue pairs are the client's, and its peer's. They belong to the client when they are
// connected: before that, the peer may name those of another host. A queue pair of another client stays with that one.
func (c *Client) own(line []byte) {
	tuple, moved := event.PeerTuple.Name(), event.QPTransition.Name()
	if !bytes.Contains(line, []byte(tuple)) && (c.claimed == nil || !bytes.Contains(line, []byte(moved))) {
		return
	}
	var e struct {
		Event string
		Attrs struct{ QPN, GID, To string }
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return
	}
	switch {
	case e.Event == tuple:
		gid, err := netip.ParseAddr(e.Attrs.GID)
		if qpn, ok := number24(e.Attrs.QPN); err == nil && ok {
			c.claimed = append(c.claimed, address{gid.Unmap(), qpn})
		}
	case e.Event == moved && e.Attrs.To == "RTR":
		c.live.wire.assign(c, c.claimed)
		c.claimed = nil
	}
}

// assign gives queue pairs to a client.
func (w *wire) assign(c *Client, all []address) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range all {
		if _, taken := w.clients.LoadOrStore(to, c); !taken {
			c.owned = append(c.owned, to)
		}
	}
}

// release forgets the client's queue pairs and packets.
func (w *wire) release(c *Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range c.owned {
		w.clients.Delete(to)
	}
	c.owned, c.packets = nil, Collector{}
	c.full.Store(true)
}

// drawing is the packets of a client as a page has them.
type drawing struct {
	Packets  []packetData  `json:"packets"`
	Shapes   []shapeData   `json:"shapes"`
	Captures []captureData `json:"captures"`
}

// seen returns the packets that were kept so far.
func (c *Client) seen() *Collector {
	c.live.wire.mu.Lock()
	defer c.live.wire.mu.Unlock()
	return &Collector{head: c.packets.head[:len(c.packets.head):len(c.packets.head)], omitted: int(c.omitted.Load())}
}

// draw makes the drawing of packets. It is nil if they are not those of the client's events.
func (c *Client) draw(packets *Collector) *drawing {
	c.live.drawing.Lock()
	defer c.live.drawing.Unlock()
	events, _, err := c.recorder.Events()
	if err != nil {
		return nil
	}
	r := New(&trace.Record{Events: events})
	r.AddPackets(c.live.device, trace.EndServer, packets)
	r.settle()
	d := &drawing{Packets: packetsData(r.joined), Shapes: r.shapes}
	for _, capture := range r.captures {
		d.Captures = append(d.Captures, capture.data())
	}
	if d.Packets == nil {
		return nil
	}
	return d
}

// draw returns the packets of a client, nil if there are no new ones and its job is not over since.
func (h *had) draw(s shown) *drawing {
	packets := s.seen()
	version := 2 * len(packets.head)
	if s.over {
		version++
	}
	if len(packets.head) == 0 || version == h.drawn {
		return nil
	}
	h.drawn = version
	return s.draw(packets)
}
