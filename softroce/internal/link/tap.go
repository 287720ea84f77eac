// This file lets packets be seen: for a capture file, or a picture.

package link

import (
	"sync/atomic"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Tap sees packets: those that are about to be sent, and those that came and
// are sound. f has all there is to make up the IP header from; raw, BTH to
// ICRC, is valid during the call. The call is in the middle of Send or Receive,
// perhaps of several at once, and must not call the link. A packet that the
// kernel refused and that is sent once more is seen once more.
type Tap func(sent bool, f packet.Frame, raw []byte)

// storeTap sets the tap, nil for none.
func storeTap(p *atomic.Pointer[Tap], t Tap) {
	if t == nil {
		p.Store(nil)
		return
	}
	p.Store(&t)
}

// loadTap returns the tap, nil if there is none.
func loadTap(p *atomic.Pointer[Tap]) Tap {
	if t := p.Load(); t != nil {
		return *t
	}
	return nil
}
