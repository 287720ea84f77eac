// One list of packets from all captures.

package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

// joined is a packet as both ends have seen it.
type joined struct {
	*packet
	sent, received time.Time // the zero time if no capture of that end has it
	lost           bool      // the receiver's capture was running and does not have it
}

// join makes one packet of two that are the same, and sorts all by time.
func (r *Report) join() []joined {
	at := map[string]map[packetKey][]*packet{trace.EndClient: {}, trace.EndServer: {}}
	spans := map[string]*span{trace.EndClient: {}, trace.EndServer: {}}
	for _, c := range r.captures {
		for _, p := range c.packets {
			at[c.end][p.key()] = append(at[c.end][p.key()], p)
			spans[c.end].add(p.at)
		}
	}
	var all []joined
	for _, from := range ends {
		sent, received := at[from], at[trace.OtherEnd(from)]
		for key, out := range sent {
			if key.to.end == from {
				continue
			}
			in := received[key]
			pair(out, in)
			for _, p := range out {
				j := joined{packet: p, sent: p.at}
				if p.other != nil {
					j.received = p.other.at
				} else {
					j.lost = spans[trace.OtherEnd(from)].covers(p.at)
				}
				all = append(all, j)
			}
		}
		for key, in := range received {
			for _, p := range in {
				if key.to.end != from && p.other == nil {
					all = append(all, joined{packet: p, received: p.at})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b joined) int {
		if n := a.first().Compare(b.first()); n != 0 {
			return n
		}
		return int(a.PSN) - int(b.PSN)
	})
	return all
}

// first is when the packet was first seen.
func (j *joined) first() time.Time {
	if j.sent.IsZero() {
		return j.received
	}
	return j.sent
}

// pair finds for each received packet the latest that was sent before it. Both lists have the same
// packet several times if it was sent again.
func pair(sent, received []*packet) {
	byTime := func(a, b *packet) int { return a.at.Compare(b.at) }
	slices.SortStableFunc(sent, byTime)
	slices.SortStableFunc(received, byTime)
	next := 0
	for i, in := range received {
		left := len(received) - i
		for next < len(sent)-1 && len(sent)-next > left && !sent[next+1].at.After(in.at) {
			next++
		}
		if next == len(sent) {
			return
		}
		in.other, sent[next].other = sent[next], in
		next++
	}
}

// span is the time in which a capture has packets.
type span struct{ from, to time.Time }

func (s *span) add(t time.Time) {
	if s.from.IsZero() || t.Before(s.from) {
		s.from = t
	}
	if t.After(s.to) {
		s.to = t
	}
}

func (s *span) covers(t time.Time) bool {
	return !s.from.IsZero() && !t.Before(s.from) && t.Before(s.to)
}

// agree moves the server's captures if, with their clock, packets would arrive before they were sent.
func (r *Report) agree() {
	const far = time.Duration(1) << 62
	low, high := -far, far // of what the server's captures are ahead
	sent := map[packetKey]time.Time{}
	for _, c := range r.captures {
		for _, p := range c.packets {
			if !p.again && c.end == trace.EndClient {
				sent[p.key()] = p.at
			}
		}
	}
	for _, c := range r.captures {
		for _, p := range c.packets {
			at, both := sent[p.key()]
			switch {
			case c.end != trace.EndServer || p.again || !both:
			case p.from == trace.EndClient:
				high = min(high, p.at.Sub(at))
			default:
				low = max(low, p.at.Sub(at))
			}
		}
	}
	if low <= 0 && high >= 0 {
		return
	}
	by := nearest(low, high)
	for _, c := range r.captures {
		if c.end != trace.EndServer {
			continue
		}
		c.ahead += by
		c.why += fmt.Sprintf("; moved by %v, or else packets would arrive before they were sent", by.Round(time.Microsecond))
		for _, p := range c.packets {
			p.at = p.at.Add(-by)
		}
	}
}
