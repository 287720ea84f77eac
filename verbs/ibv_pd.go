//go:build linux && cgo && !nolibibverbs

// The C wall: protection domains and address handles.

package verbs

// #include "ibv_shim.h"
import "C"

import "unsafe"

// ibvPD is struct ibv_pd.
type ibvPD struct {
	d  *ibvDevice
	pd *C.struct_ibv_pd
}

func (d *ibvDevice) AllocPD() (ProviderPD, error) {
	p := &ibvPD{d: d}
	if err := errnoErr(C.rv_alloc_pd(d.ctx, &p.pd)); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *ibvPD) Close() error { return errnoErr(C.rv_dealloc_pd(p.pd)) }

// ibvAH is struct ibv_ah.
type ibvAH struct {
	posted
	pd *ibvPD
	ah *C.struct_ibv_ah
}

func (p *ibvPD) CreateAH(attr AHAttr) (ProviderAH, error) {
	var ah *C.struct_ibv_ah
	c := encodeAH(&attr)
	if err := errnoErr(C.rv_create_ah(p.pd, &c, &ah)); err != nil {
		return nil, err
	}
	return newIBVAH(p, unsafe.Pointer(ah)), nil
}

// newIBVAH makes the Go side of a struct ibv_ah *; see newIBVQP.
func newIBVAH(pd *ibvPD, p unsafe.Pointer) *ibvAH { return &ibvAH{pd: pd, ah: (*C.struct_ibv_ah)(p)} }

func (a *ibvAH) Close() error {
	return a.end(func() error { return errnoErr(C.rv_destroy_ah(a.ah)) })
}

func encodeAH(a *AHAttr) (c C.struct_ibv_ah_attr) {
	c.grh.dgid = a.GRH.DGID
	c.grh.flow_label = C.uint32_t(a.GRH.FlowLabel)
	c.grh.sgid_index = C.uint8_t(a.GRH.SGIDIndex)
	c.grh.hop_limit = C.uint8_t(a.GRH.HopLimit)
	c.grh.traffic_class = C.uint8_t(a.GRH.TrafficClass)
	c.dlid = C.uint16_t(a.DLID)
	c.sl = C.uint8_t(a.SL)
	c.src_path_bits = C.uint8_t(a.SrcPathBits)
	c.static_rate = C.uint8_t(a.StaticRate)
	if a.IsGlobal {
		c.is_global = 1
	}
	c.port_num = C.uint8_t(a.PortNum)
	return c
}

func decodeAH(c *C.struct_ibv_ah_attr) AHAttr {
	return AHAttr{
		GRH: GRH{
			DGID: GID(c.grh.dgid), FlowLabel: uint32(c.grh.flow_label), SGIDIndex: uint8(c.grh.sgid_index),
			HopLimit: uint8(c.grh.hop_limit), TrafficClass: uint8(c.grh.traffic_class),
		},
		DLID: uint16(c.dlid), SL: uint8(c.sl), SrcPathBits: uint8(c.src_path_bits),
		StaticRate: uint8(c.static_rate), IsGlobal: c.is_global != 0, PortNum: uint8(c.port_num),
	}
}
