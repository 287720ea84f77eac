// Unread packets: an ACK timeout says nothing of the peer if the answer may lie in this side's socket, unread. While others
// send, something always lies there. But a socket is a FIFO. All that had arrived by some time is received if
// the receiver has since found the socket empty, or has since taken as much as it can hold.

package softroce

import (
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
)

// unread reports whether a packet that was sent on a path at a time, or its answer, may lie unread, as far as
// the kernel of this host knows.
func (d *device) unread(p *transport.Path, since time.Duration) bool {
	own := false // the peer is this device
	for _, r := range d.receivers {
		addr := r.link.Addr()
		own = own || addr == p.Dst
		if (addr == p.Src || addr == p.Dst) && time.Duration(r.heard.until.Load()) <= since && link.Unread(r.link) {
			return true
		}
	}
	room := p.Link.(*port).room
	return room != nil && !own && room.Unread(p.Dst)
}

// heard says how far a receiver is behind.
type heard struct {
	until  atomic.Int64  // all that arrived by then is processed
	mark   time.Duration // the end of an earlier receive
	since  int           // bytes received after mark
	buffer int           // bytes that the socket can hold
}

// socketBytes returns the most payload that a socket can hold: the kernel takes twice the receive
// buffer, and then one datagram more.
func socketBytes(receiveBuffer int) int { return 2*receiveBuffer + 1<<16 }

// received notes that a receive of bytes, which ended at now, is processed, and whether it found the socket empty.
func (h *heard) received(bytes int, now time.Duration, emptied bool) {
	if h.since += bytes; emptied || h.since > h.buffer {
		h.until.Store(int64(h.mark))
		h.mark, h.since = now, 0
	}
}
