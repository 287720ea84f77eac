// Address handles, which UD needs. Package verbs makes them, for a provider. The provider here makes
// nothing else.

package simulate

import (
	"net"
	"sync"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

const providerName = "simulate"

// handles is the provider. Its domain is that of the host that asks.
var handles struct {
	provider
	once sync.Once
	mu   sync.Mutex // held while a handle is made
	pd   *transport.PD
}

type (
	provider struct{}
	device   struct {
		verbs.ProviderDevice
		closed chan struct{}
	}
	domain struct {
		verbs.ProviderPD
		pd *transport.PD
	}
)

func (*provider) Name() string { return providerName }
func (*provider) Devices() ([]verbs.DeviceInfo, error) {
	return []verbs.DeviceInfo{{Name: providerName}}, nil
}
func (*provider) Open(string) (verbs.ProviderDevice, error) {
	return device{closed: make(chan struct{})}, nil
}
func (device) AllocPD() (verbs.ProviderPD, error) { return domain{pd: handles.pd}, nil }
func (d device) Close() error                     { close(d.closed); return nil }
func (d device) NextEvent() (verbs.AsyncEvent, error) {
	<-d.closed
	return verbs.AsyncEvent{}, net.ErrClosed
}
func (d domain) CreateAH(a verbs.AHAttr) (verbs.ProviderAH, error) { return d.pd.CreateAH(a) }
func (domain) Close() error                                        { return nil }

// handle returns an address handle of another host.
func (h *Host) handle(to *Host) *verbs.AH {
	handles.once.Do(func() { verbs.Register(&handles.provider) })
	handles.mu.Lock()
	defer handles.mu.Unlock()
	handles.pd = h.pd
	dev, err := verbs.Open(providerName)
	if err != nil {
		panic(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		panic(err)
	}
	attr := verbs.AHAttr{IsGlobal: true, PortNum: 1}
	attr.GRH.DGID = qpstate.GIDFrom(to.addr)
	ah, err := pd.CreateAH(attr)
	if err != nil {
		panic(err)
	}
	h.net.opened = append(h.net.opened, dev, pd, ah)
	return ah
}
