// Where a capture was made, and by which clock.

package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
)

// settle finds the ends of all captures, puts their packets on the record's clock and joins them.
func (r *Report) settle() {
	if !r.settled {
		r.settled = true
		for _, c := range r.captures {
			c.place(r)
		}
		r.agree()
		r.joined = r.join()
	}
}

// place finds the capture's end and puts its packets on the record's clock.
func (c *capture) place(r *Report) {
	if c.end == "" {
		c.end, c.why = r.placeOf(c)
	}
	c.again()
	if c.end == trace.EndServer && r.record.Clock != nil {
		c.ahead = r.record.Clock.Offset
	}
	if low, high := r.bounds(c); low > c.ahead || high < c.ahead {
		c.ahead = nearest(low, high)
		c.why += fmt.Sprintf("; its clock is %v of the client's, or else packets would be sent before they were posted, or after they completed", apart(c.ahead))
	}
	for _, p := range c.packets {
		p.at = p.at.Add(-c.ahead)
	}
}

// apart says how far a clock is ahead.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Microsecond).String() + " behind that"
	}
	return ahead.Round(time.Microsecond).String() + " ahead"
}

// placeOf finds out at which end a capture was made.
func (r *Report) placeOf(c *capture) (end, why string) {
	if end := r.named(c); end != "" {
		return end, "the record has the name of the file"
	}
	for _, other := range r.captures {
		if other == c || other.end == "" && r.named(other) == "" {
			continue
		}
		at := other.end
		if at == "" {
			at = r.named(other)
		}
		if far, ok := distance(other, c, at); ok && far > 0 {
			return trace.OtherEnd(at), fmt.Sprintf("packets of the %s pass it after %s, and packets of the %s before", at, other.name, trace.OtherEnd(at))
		} else if ok {
			return at, fmt.Sprintf("packets pass it no later than %s", other.name)
		}
	}
	for _, other := range r.captures {
		if other == c {
			continue
		}
		if far, ok := distance(other, c, trace.EndClient); ok && far > 0 {
			return trace.EndServer, "packets of the client pass it after " + other.name
		} else if ok {
			return trace.EndClient, "packets of the client pass it before " + other.name
		}
	}
	if low, high := r.bounds(c); r.record.Clock != nil && (low > 0 || high < 0) {
		if ahead := r.record.Clock.Offset; low <= ahead && high >= ahead {
			return trace.EndServer, "its clock is the server's"
		}
	}
	return trace.EndClient, "assumed; write server=FILE if the server's host has captured it"
}

// distance returns how long packets take from one capture to another, if the first was made at an
// end. The clocks do not matter: they add to one direction what they take from the other.
func distance(from, to *capture, end string) (time.Duration, bool) {
	forth, back := []time.Duration{}, []time.Duration{}
	first := map[packetKey]time.Time{}
	for _, p := range from.packets {
		if _, seen := first[p.key()]; !seen {
			first[p.key()] = p.at
		}
	}
	for _, p := range to.packets {
		at, seen := first[p.key()]
		if delete(first, p.key()); !seen {
			continue
		}
		if p.from == end {
			forth = append(forth, p.at.Sub(at))
		} else {
			back = append(back, p.at.Sub(at))
		}
	}
	if len(forth) == 0 || len(back) == 0 {
		return 0, false
	}
	return (median(forth) - median(back)) / 2, true
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// packetKey is the same for a packet at both ends, and when it is sent again.
type packetKey struct {
	to     *endpoint
	psn    uint32
	opcode string
}

func (p *packet) key() packetKey { return packetKey{p.to, p.PSN, p.Opcode} }

// again marks the packets that were sent before, and the tail-loss probes: an empty SEND with a PSN that another packet
// has, or a response to a READ.
func (c *capture) again() {
	seen := map[packetKey]bool{}
	empty := map[packetKey]bool{} // requests that are empty SENDs themselves
	newest := map[*endpoint]uint32{}
	for _, p := range c.packets {
		key := p.key()
		p.again = seen[key] && (!p.Response || p.Kind != "ACKNOWLEDGE")
		seen[key] = true
		if p.Response {
			continue
		}
		last, begun := newest[p.to]
		if ahead := (p.PSN - last) & psnMask; !begun || ahead > 0 && ahead <= psnMask/2 {
			newest[p.to] = p.PSN
			empty[key] = p.Payload == 0
		} else if p.Opcode == "RC_SEND_ONLY" && p.Payload == 0 && !empty[key] {
			p.probe, p.again = true, false
		}
	}
}

// bounds returns how far the clock of a capture may be ahead of the record's. No packet of a request
// is sent before the request was posted, and no answer arrives after it has completed.
func (r *Report) bounds(c *capture) (low, high time.Duration) {
	const any = time.Duration(1) << 62
	low, high = -any, any
	completed := r.completions()
	uncertain := func(end string) time.Duration {
		if end == trace.EndServer && r.record.Clock != nil {
			return r.record.Clock.Uncertainty
		}
		return 0
	}
	for _, p := range c.packets {
		if !p.Response && p.to.peer != nil {
			p.to.peer.check(p)
		}
	}
	for _, p := range c.packets {
		requester := p.requester()
		if requester == nil {
			continue
		}
		i := requester.requestOf(p.PSN)
		if i < 0 {
			continue
		}
		q := &requester.requests[i]
		// At the far end a packet is later on its way there, and an answer earlier.
		if posted := r.record.Events[q.event].Time; !p.Response {
			high = min(high, p.at.Sub(posted)+uncertain(requester.end))
		} else if done, ok := completed[q.event]; ok && !p.Failed {
			low = max(low, p.at.Sub(done)-uncertain(requester.end))
		}
	}
	return low, high
}

// nearest returns a difference within bounds that may contradict each other.
func nearest(low, high time.Duration) time.Duration {
	const none = time.Duration(1) << 61
	switch {
	case low < -none:
		return high
	case high > none:
		return low
	}
	return low + (high-low)/2
}

// requester returns the queue pair whose request the packet is or answers, nil if it is not known.
func (p *packet) requester() *endpoint {
	if p.Response {
		return p.to
	}
	return p.to.peer
}

// completions returns when each request of the send queues completed, by the index of its wr.posted.
func (r *Report) completions() map[int]time.Time {
	type id struct {
		end string
		qp  *endpoint
		wr  string
	}
	open := map[id][]int{}
	done := map[int]time.Time{}
	for i := range r.record.Events {
		e := &r.record.Events[i]
		k := id{e.End, r.queuePair(e.End, e.Attr("qpn").String()), e.Attr("wr_id").String()}
		switch e.Event {
		case event.SendPosted.Name():
			if e.Verb == event.SendPosted.Verb() {
				open[k] = append(open[k], i)
			}
		case event.WRCompleted.Name():
			if opcode := e.Attr("opcode").String(); len(open[k]) > 0 && opcode != "IBV_WC_RECV" && opcode != "IBV_WC_RECV_RDMA_WITH_IMM" {
				done[open[k][0]] = e.Time
				open[k] = open[k][1:]
			}
		}
	}
	return done
}
