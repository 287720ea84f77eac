//go:build linux && cgo

// The C wall: protection domains, memory regions, address handles.

package verbs

// #include "ibv_shim.h"
import "C"

import "unsafe"

// ibvPD is struct ibv_pd.
type ibvPD struct {
	d  *ibvDevice
	pd *C.struct_ibv_pd
}

func (d *ibvDevice) AllocPD() (PDProvider, error) {
	p := &ibvPD{d: d}
	if err := errnoErr(C.rv_alloc_pd(d.ctx, &p.pd)); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *ibvPD) Close() error { return errnoErr(C.rv_dealloc_pd(p.pd)) }

// ibvMR is struct ibv_mr.
type ibvMR struct {
	mr         *C.struct_ibv_mr
	lkey, rkey uint32 // to be told when mr is gone, too
}

func (p *ibvPD) RegMR(buf []byte, access Access) (MRProvider, error) {
	m := &ibvMR{}
	start := unsafe.Pointer(unsafe.SliceData(buf))
	if err := errnoErr(C.rv_reg_mr(p.pd, start, C.size_t(len(buf)), C.int(access), &m.mr)); err != nil {
		return nil, err
	}
	m.lkey, m.rkey = uint32(m.mr.lkey), uint32(m.mr.rkey)
	return m, nil
}

func (m *ibvMR) LKey() uint32 { return m.lkey }
func (m *ibvMR) RKey() uint32 { return m.rkey }
func (m *ibvMR) Close() error { return errnoErr(C.rv_dereg_mr(m.mr)) }

// ibvAH is struct ibv_ah.
type ibvAH struct{ ah *C.struct_ibv_ah }

func (p *ibvPD) CreateAH(attr AHAttr) (AHProvider, error) {
	a := &ibvAH{}
	c := encodeAH(&attr)
	if err := errnoErr(C.rv_create_ah(p.pd, &c, &a.ah)); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *ibvAH) Close() error {
	if err := errnoErr(C.rv_destroy_ah(a.ah)); err != nil {
		return err
	}
	a.ah = nil
	return nil
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
