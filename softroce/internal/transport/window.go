// The window: how many packets of a queue pair may be in flight. It grows while
// acknowledgements arrive, fast at first, and shrinks when packets were lost.
//
// Without a route, the window is tiny until the peer's first acknowledgement. The peer's address came from a
// stranger, and may be that of a host that never asked for packets. With a route, all queue pairs to the address share
// that limit (silence.go).

package transport

import "math"

const (
	unprovenWindow = 4 // until the first acknowledgement
	unprovenResend = 1 // the same, after a timeout

	minWindow     = 8
	initialWindow = 64
	windowStep    = 2 // packets per round trip, after a loss has shown the limit
)

type window struct {
	packets, limit int64
	proven         bool    // the peer has acknowledged a packet
	threshold      int64   // below it, the window grows by one packet per acknowledged packet
	credit         int64   // packets acknowledged since the last step
	losses         float64 // share of lost packets, see lose
	sinceCut       int64   // packets acknowledged since a loss shrank the window
}

func newWindow(limit int) window {
	l := max(int64(limit), minWindow)
	return window{packets: unprovenWindow, limit: l, threshold: l}
}

// grow notes that acked of the inFlight packets were acknowledged.
func (w *window) grow(acked, inFlight int64) {
	if !w.proven {
		w.open()
		return
	}
	w.sinceCut += acked
	w.losses *= math.Exp(-float64(acked) / lossMemory)
	if inFlight < w.packets/2 {
		return // something other than the window limits the queue pair
	}
	if w.packets < w.threshold {
		w.packets += acked
	} else if w.credit += acked; w.credit >= w.packets {
		w.credit = 0
		w.packets += windowStep
	}
	w.packets = min(w.packets, w.limit)
}

// open ends the time of the tiny window.
func (w *window) open() { w.proven, w.packets = true, min(initialWindow, w.limit) }

// shrink notes an ACK timeout.
func (w *window) shrink() {
	if !w.proven {
		w.packets = unprovenResend
		return
	}
	w.cut(0.5)
}

// cut leaves a part of the window.
func (w *window) cut(part float64) {
	w.threshold = max(int64(float64(w.packets)*part), minWindow)
	w.packets, w.credit = w.threshold, 0
}

// loseAll notes that a packet was lost, and all packets behind it are sent again. How many of these were lost is
// not known. If two losses come within a window, the path is full, and the window is halved. Otherwise the
// round trip shows which part of the window waits in queues. That part is cut, but at most half of the window.
// Without a queue, the link loses packets for another reason, and a smaller window would not help.
func (w *window) loseAll(t *roundTrip) {
	if !w.proven {
		w.shrink()
		return
	}
	part := 0.5
	if t.mean > 0 && w.sinceCut >= w.packets {
		part = max(part, float64(t.least)/float64(t.mean))
	}
	w.cut(part)
	w.sinceCut = 0
}

// lose notes that one packet was lost, and only that packet is sent again.
func (w *window) lose() {
	w.losses += (1 - w.losses) / lossMemory
	if w.losses > tolerated && w.sinceCut >= w.packets {
		w.cut(lossCut)
		w.sinceCut = 0
	}
}
