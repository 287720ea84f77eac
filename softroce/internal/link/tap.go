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

// tap is the tap of a link.
type tap struct{ p atomic.Pointer[Tap] }

// load returns the tap, or nil.
func (t *tap) load() Tap {
	if p := t.p.Load(); p != nil {
		return *p
	}
	return nil
}
