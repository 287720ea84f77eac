// The exchange: what one end tells the other, as programs do over TCP. It takes no time here.

package workbench

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// told is what the peer has told about one of its queue pairs.
type told struct {
	Name string
	QPN  uint32
	PSN  uint32
	GID  verbs.GID
	MTU  verbs.MTU
	QKey uint32
}

// region is what the peer has told about one of its regions.
type region struct {
	Name   string
	Addr   uint64
	RKey   uint32
	Length int
	LKey   bool // the peer told its lkey by mistake
}

// defaultPSNs are for an exchange that names none.
var defaultPSNs = [...]uint32{0x100, 0x200}

// exchange tells the peer the endpoint of a queue pair (name), a region (mr), or both.
func (h *host) exchange(a *Action) (*Result, error) {
	if a.Name == "" && a.MR == "" {
		return nil, errors.New("name a queue pair, a region (mr), or both")
	}
	peer := h.s.hosts[h.side.Peer()]
	var endpoint *told
	var memory *region
	if a.Name != "" {
		o, err := h.find("QP", a.Name)
		if err != nil {
			return nil, err
		}
		port, err := h.dev.QueryPort(1)
		if err != nil {
			return nil, err
		}
		psn := defaultPSNs[h.side]
		if a.PSN != nil {
			psn = *a.PSN
		}
		if psn > maxPSN {
			return nil, errors.Errorf("psn %#x has more than 24 bits", psn)
		}
		attr, err := o.qp.Query(qpstate.MaskQKey)
		if err != nil {
			return nil, err
		}
		o.psn = &psn
		endpoint = &told{o.name, o.qp.QPN(), psn, h.s.world.GID(h.side), port.ActiveMTU, attr.QKey}
	}
	if a.MR != "" {
		m, err := h.memory(a.MR, a.LKey)
		if err != nil {
			return nil, err
		}
		memory = &m
	}
	if endpoint != nil {
		peer.told = replaced(peer.told, *endpoint, func(t told) bool { return t.Name == endpoint.Name })
		h.toldEndpoint(*endpoint)
	}
	if memory != nil {
		peer.regions = replaced(peer.regions, *memory, func(r region) bool { return r.Name == memory.Name })
		h.toldRegion(*memory)
	}
	return &Result{}, nil
}

// memory describes a region, or a memory window, for the peer.
func (h *host) memory(name string, lkey bool) (region, error) {
	o, err := h.find("", name)
	if err != nil {
		return region{}, err
	}
	switch {
	case o.kind == "MR" && lkey:
		return region{name, o.mr.Addr(), o.mr.LKey(), o.mr.Len(), true}, nil
	case o.kind == "MR":
		return region{name, o.mr.Addr(), o.mr.RKey(), o.mr.Len(), false}, nil
	case o.kind == "MW":
		v := simulated.InspectMW(o.mw)
		return region{name, v.Addr, o.mw.RKey(), v.Length, false}, nil
	}
	return region{}, errors.Errorf("%q is %s: the peer needs a region or a window", name, o.aKind())
}

// replaced appends an element and drops those that it replaces.
func replaced[T any](list []T, with T, old func(T) bool) []T {
	var kept []T
	for _, x := range list {
		if !old(x) {
			kept = append(kept, x)
		}
	}
	return append(kept, with)
}

// toldOf returns what the peer has told about a queue pair; "" is the last one.
func (h *host) toldOf(name string) (told, error) {
	for i := len(h.told) - 1; i >= 0; i-- {
		if name == "" || h.told[i].Name == name {
			return h.told[i], nil
		}
	}
	return told{}, errors.Errorf("the peer has not told the %v about its queue pair %q: exchange first", h.side, name)
}

// regionOf returns what the peer has told about a region.
func (h *host) regionOf(name string) (region, error) {
	for _, r := range h.regions {
		if r.Name == name {
			return r, nil
		}
	}
	return region{}, errors.Errorf("the peer has not told the %v about its region %q: exchange first", h.side, name)
}

// write stores bytes in a region, as the program itself does.
func (h *host) write(a *Action) (*Result, error) {
	o, err := h.find("MR", a.Name)
	if err != nil {
		return nil, err
	}
	bytes, err := a.Bytes()
	if err != nil {
		return nil, err
	}
	if a.Offset < 0 || a.Offset > o.mr.Len() || len(bytes) > o.mr.Len()-a.Offset {
		return nil, errors.Errorf("%d bytes at offset %d are not within the region of %d bytes; a program that writes there corrupts other memory or crashes",
			len(bytes), a.Offset, o.mr.Len())
	}
	copy(o.mr.Bytes()[a.Offset:], bytes)
	return &Result{}, nil
}
