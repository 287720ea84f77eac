// Paths to peers, and address handles, each of which holds a path.

package transport

import (
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
)

// Path is the way from this device to a peer. A Path never changes.
type Path struct {
	Src, Dst     netip.Addr // of the same family; IPv4 addresses have 4 bytes
	TrafficClass uint8
	HopLimit     uint8
	Source       uint16  // UDP source port; 0: the link's usual one
	Flight       int     // bytes that all queue pairs of RC may have in flight to Dst: what its receive buffer holds, and this side's; 0: no limit
	Shards       int     // sockets over which the peer may spread packets, by queue pair number modulo Shards; a burst keeps to one. 0: one
	Joined       bool    // the peer's Receive gets all packets of a burst at once, and is this package's
	Outlet       *Outlet // the socket that packets leave from; nil: it always has room
	Link         any     // set by Config.Resolve for the caller of Transmit
}

// same reports whether packets on p and on q are sent in the same way.
func (p *Path) same(q *Path) bool { return p == q || *p == *q }

// AH is an address handle: the path of a UD send. It is a verbs.ProviderAH.
type AH struct {
	pd     *PD
	path   *Path
	route  *route // may be nil
	closed atomic.Bool
}

// CreateAH returns an address handle. It returns ENOMEM if there are MaxAH.
func (pd *PD) CreateAH(attr qpstate.AHAttr) (*AH, error) {
	path, err := pd.engine.resolve(&attr)
	if err == nil {
		err = pd.engine.openAHs.add(MaxAH)
	}
	if err != nil {
		return nil, err
	}
	return &AH{pd: pd, path: capable(path), route: pd.engine.routes.use(path)}, nil
}

// Close makes later posts with the handle fail. Sends that are posted already keep their path.
func (ah *AH) Close() error {
	if ah.closed.Swap(true) {
		return nil
	}
	ah.pd.engine.openAHs.drop()
	if ah.route != nil {
		ah.pd.engine.routes.unuse(ah.route, true)
	}
	return nil
}

// portNum is the number of the device's one port.
const portNum = 1

// resolve checks what holds for every device, and then asks the device with Config.Resolve.
func (e *Engine) resolve(attr *qpstate.AHAttr) (*Path, error) {
	if !attr.IsGlobal || attr.PortNum != portNum || attr.GRH.DGID.IsZero() {
		return nil, syscall.EINVAL
	}
	return e.cfg.Resolve(attr)
}
