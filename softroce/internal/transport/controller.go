// The congestion controller: how a route's window grows and shrinks. docs/design/congestion.md has the reasons.

package transport

import (
	"math"
	"time"
)

const (
	firstWindow = 64 << 10 // bytes
	leastWindow = 2        // packets
	leastHidden = 4        // the same where the responder hides losses: fewer seldom show a loss before the ACK timeout
	// usualTrip is the round trip at which a window grows by one packet per round trip, once the
	// limit was found.
	usualTrip = 80 * time.Microsecond

	// tolerated is the share of lost packets that does not shrink the window: 4 %. Links lose
	// some packets without congestion. A full buffer soon loses more.
	tolerated = 0.04
	// lossMemory is the number of packets over which that share is measured.
	lossMemory = 256
	// lossCut is what is left of the window after a cut for losses.
	lossCut = 0.7
	// markMemory is the weight of one round trip in the share of round trips with marks.
	markMemory = 1.0 / 16
)

// controller is the congestion controller of one route. Sizes are in bytes.
type controller struct {
	window, limit int64
	threshold     int64   // below it, the window grows by what is acknowledged
	credit        float64 // part of a byte of growth
	losses        float64 // share of lost packets
	hidden        bool    // the responder drops what is behind a gap, and so hides how much was lost
	sinceLoss     int64   // bytes acknowledged since such a loss
	marks         float64 // share of the round trips in which packets were marked
	markedAt      time.Duration
	cutAt         time.Duration
}

func (c *controller) init(limit int64) {
	*c = controller{window: min(firstWindow, limit), limit: limit, threshold: limit, marks: 1, cutAt: -time.Hour}
}

// acked notes that n bytes were acknowledged while spent bytes were in flight. trip is the round trip.
func (c *controller) acked(n, mtu, spent int64, trip time.Duration) {
	c.sinceLoss += n
	c.losses *= math.Exp(-float64(n) / float64(mtu) / lossMemory)
	if spent < c.window/2 {
		return // something other than the window limits the queue pairs
	}
	if c.window < c.threshold {
		c.window += n
	} else {
		c.credit += c.growth(trip) * float64(mtu) * float64(n) / float64(c.window)
		whole := int64(c.credit)
		c.credit -= float64(whole)
		c.window += whole
	}
	c.window = min(c.window, c.limit)
}

// growth returns the packets by which the window grows per round trip. Where switches mark packets, it
// is the square of the round trip, so that all get the same rate however far they are. Where losses are hidden, each costs
// much of the window, so it grows faster on a short path.
func (c *controller) growth(trip time.Duration) float64 {
	far := float64(trip) / float64(usualTrip)
	switch {
	case c.markedAt != 0:
		far = min(max(far, 0.5), 8)
		return far * far
	case c.hidden:
		return min(max(2/far, 1), 3)
	}
	return 1
}

// lost notes that a packet was lost.
func (c *controller) lost(now, trip time.Duration, mtu int64) {
	c.losses += (1 - c.losses) / lossMemory
	if c.losses > tolerated {
		c.cut(now, trip, lossCut, leastWindow*mtu)
	}
}

// lostAll notes that a packet was lost, and all packets behind it are sent again. How many of these were lost is
// not known. If two losses come within a window, the path is full, and the window is halved. Otherwise the
// round trip shows which part of the window waits in queues. That part is cut, but at most half of the window.
// Without a queue, the link loses packets for another reason, and a smaller window would not help.
func (c *controller) lostAll(now time.Duration, t *roundTrip, mtu int64) {
	part := 0.5
	c.hidden = true
	if t.mean > 0 && c.sinceLoss >= c.window {
		part = max(part, float64(t.least)/float64(t.mean))
	}
	c.cut(now, t.mean, part, leastHidden*mtu)
	c.sinceLoss = 0
}

// cut leaves a part of the window, at most once per round trip, and not less than the least.
func (c *controller) cut(now, trip time.Duration, part float64, least int64) {
	if now-c.cutAt < trip {
		return
	}
	c.cutAt = now
	c.window = min(c.window, max(int64(float64(c.window)*part), min(least, c.limit)))
	c.threshold, c.credit = c.window, 0
}

// congested notes that packets were marked. The more of the last round trips had marks, the more is cut.
func (c *controller) congested(now, trip time.Duration, least int64) {
	if trip == 0 || c.markedAt != 0 && now-c.markedAt < trip {
		return
	}
	if c.markedAt != 0 { // the first mark finds the initial share
		without := float64(now-c.markedAt)/float64(trip) - 1
		c.marks *= math.Pow(1-markMemory, without)
	}
	c.marks += (1 - c.marks) * markMemory
	c.markedAt = now
	c.cut(now, trip, 1-c.marks/2, least)
}
