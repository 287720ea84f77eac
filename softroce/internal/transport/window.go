// The window: how many packets of a queue pair may be in flight. It grows while
// acknowledgements arrive, fast at first, and is halved when a packet was lost.

package transport

const (
	minWindow     = 8
	initialWindow = 64
	windowStep    = 2 // packets per round trip, after a loss has shown the limit
)

type window struct {
	packets, limit int64
	threshold      int64 // below it, the window grows by one packet per acknowledged packet
	credit         int64 // packets acknowledged since the last step
}

func newWindow(limit int) window {
	l := max(int64(limit), minWindow)
	return window{packets: min(initialWindow, l), limit: l, threshold: l}
}

// grow notes that acked of the inFlight packets were acknowledged.
func (w *window) grow(acked, inFlight int64) {
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

// shrink notes that a packet was lost.
func (w *window) shrink() {
	w.threshold = max(w.packets/2, minWindow)
	w.packets, w.credit = w.threshold, 0
}
