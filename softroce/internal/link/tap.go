// Tap: a function that is called for every packet, for example to capture it.

package link

import (
	"sync/atomic"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Tap is called for each packet before it is sent, and for each received packet with a
// correct ICRC. f has the fields of the IP header. raw has the bytes from BTH to ICRC and
// is valid during the call. Send and Receive call the Tap, perhaps several at once. A Tap
// must not call the link. If the kernel refuses a packet and the link sends it again, the
// Tap is called again.
type Tap func(sent bool, f packet.Frame, raw []byte)

// storeTap sets the tap; nil removes it.
func storeTap(p *atomic.Pointer[Tap], t Tap) {
	if t == nil {
		p.Store(nil)
		return
	}
	p.Store(&t)
}

// loadTap returns the tap, or nil.
func loadTap(p *atomic.Pointer[Tap]) Tap {
	if t := p.Load(); t != nil {
		return *t
	}
	return nil
}
