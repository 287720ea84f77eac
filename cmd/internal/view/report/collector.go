package report

import (
	"time"
)

// Collector keeps the packets of a device while it runs: the beginning of each packet, of the first
// packets and of the last ones. Its memory is a few MiB at most.
type Collector struct {
	head, tail []seen
	next       int // of tail, which is a ring once it is full
	omitted    int
}

// seen is the beginning of an IP packet.
type seen struct {
	at time.Time
	ip []byte
}

const (
	collectorHead = 3 * maxPackets / 4
	collectorTail = maxPackets - collectorHead
	collectorKept = 128 // bytes: the longest headers over IPv6, and payloadShown
)

// Packet keeps the beginning of an IP packet; see softroce.Capture.
func (c *Collector) Packet(at time.Time, ip []byte) error {
	s := seen{at, append([]byte(nil), ip[:min(len(ip), collectorKept)]...)}
	switch {
	case len(c.head) < collectorHead:
		c.head = append(c.head, s)
	case len(c.tail) < collectorTail:
		c.tail = append(c.tail, s)
	default:
		c.tail[c.next] = s
		c.next = (c.next + 1) % collectorTail
		c.omitted++
	}
	return nil
}

// AddPackets adds what a device at an end has sent and received. Without a packet of the run, it adds
// nothing.
func (r *Report) AddPackets(device, end string, packets *Collector) {
	c := &capture{name: device, end: end, why: "the device itself", omitted: packets.omitted}
	for i, list := range [][]seen{packets.head, packets.tail[packets.next:], packets.tail[:packets.next]} {
		for _, s := range list {
			r.take(c, s.at, s.ip)
		}
		if i == 0 {
			c.before = len(c.packets)
		}
	}
	if len(c.packets) > 0 {
		r.captures = append(r.captures, c)
	}
}
