// The window: how many packets of a queue pair may be under way. It grows while
// acknowledgements come, quickly at first, and halves when a packet was lost.

package transport

const (
	minWindow     = 8
	initialWindow = 64
	windowStep    = 2 // packets a round trip, once a loss has shown where the limit is
)

type window struct {
	packets, limit int64
	threshold      int64 // below it, growth is by one packet for each acknowledged
	credit         int64 // acknowledged since the last step
}

func newWindow(limit int) window {
	l := max(int64(limit), minWindow)
	return window{packets: min(initialWindow, l), limit: l, threshold: l}
}

// grow takes note of acked packets, of under way before.
func (w *window) grow(acked, underWay int64) {
	if underWay < w.packets/2 {
		return // the window is not what holds it back
	}
	if w.packets < w.threshold {
		w.packets += acked
	} else if w.credit += acked; w.credit >= w.packets {
		w.credit = 0
		w.packets += windowStep
	}
	w.packets = min(w.packets, w.limit)
}

// shrink takes note of a loss.
func (w *window) shrink() {
	w.threshold = max(w.packets/2, minWindow)
	w.packets, w.credit = w.threshold, 0
}
