// Where packets go: paths, and the address handles that hold one.

package transport

import (
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
)

// Path is the way from this device to a peer. It never changes once made.
type Path struct {
	Src, Dst     netip.Addr // unmapped, both of one family
	TrafficClass uint8
	HopLimit     uint8
	FlowLabel    uint32
	Link         any // the link's own: whatever it wants to find again in a Burst
}

// AH is an address handle: the path of UD sends. It is a verbs.ProviderAH.
type AH struct {
	pd     *PD
	path   *Path
	closed atomic.Bool
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(attr qpstate.AHAttr) (*AH, error) {
	path, err := pd.engine.resolve(&attr)
	if err != nil {
		return nil, err
	}
	return &AH{pd: pd, path: path}, nil
}

// Close takes the handle from those who post; sends that were posted keep their path.
func (ah *AH) Close() error {
	ah.closed.Store(true)
	return nil
}

// portNum is the number of the device's one port.
const portNum = 1

// resolve checks what every kind of device would, and asks the device for the rest.
func (e *Engine) resolve(attr *qpstate.AHAttr) (*Path, error) {
	if !attr.IsGlobal || attr.PortNum != portNum || attr.GRH.DGID.IsZero() {
		return nil, syscall.EINVAL
	}
	return e.cfg.Resolve(attr)
}
