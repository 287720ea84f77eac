//go:build linux && cgo

// Address handles and paths.

package main

// #include "../core.h"
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

type ah struct {
	*pd
	*verbs.AH
}

var ahs handles[ah]

//export rv_create_ah
func rv_create_ah(handle C.rv_handle, attr *C.struct_ibv_ah_attr, out *C.rv_handle) C.int {
	p := pds.get(handle)
	a, err := p.CreateAH(p.path(attr))
	if err != nil {
		return errnoOf(err)
	}
	*out = ahs.add(&ah{p, a})
	return 0
}

//export rv_destroy_ah
func rv_destroy_ah(handle C.rv_handle) C.int {
	return closing(&ahs, handle, func(a *ah) error { return a.AH.Close() })
}

// rv_init_ah_from_wc finds the way back to a datagram's sender. Of a datagram over IPv4, the service
// level says that it came over IPv4 (Attend), and nothing else.
//
//export rv_init_ah_from_wc
func rv_init_ah_from_wc(handle C.rv_handle, port C.int, wc *C.struct_ibv_wc, grh *C.struct_ibv_grh, out *C.struct_ibv_ah_attr) C.int {
	if wc.wc_flags&C.IBV_WC_GRH == 0 || grh == nil {
		return C.int(syscall.EINVAL) // RoCE has no path without it
	}
	completion := *(*verbs.WC)(unsafe.Pointer(wc))
	completion.SL = 0
	attr, err := contexts.get(handle).AHAttrFromWC(uint8(port), &completion, unsafe.Slice((*byte)(unsafe.Pointer(grh)), verbs.GRHLen))
	if err != nil {
		return errnoOf(err)
	}
	setPath(out, &attr)
	return 0
}

// path returns an address vector.
func (d *device) path(a *C.struct_ibv_ah_attr) verbs.AHAttr {
	return verbs.AHAttr{
		GRH: verbs.GRH{DGID: *(*verbs.GID)(unsafe.Pointer(&a.grh.dgid)), FlowLabel: uint32(a.grh.flow_label),
			SGIDIndex: d.slot(uint8(a.grh.sgid_index)), HopLimit: uint8(a.grh.hop_limit), TrafficClass: uint8(a.grh.traffic_class)},
		DLID: uint16(a.dlid), SL: uint8(a.sl), SrcPathBits: uint8(a.src_path_bits), StaticRate: uint8(a.static_rate),
		IsGlobal: a.is_global != 0, PortNum: uint8(a.port_num),
	}
}

func setPath(a *C.struct_ibv_ah_attr, v *verbs.AHAttr) {
	*(*verbs.GID)(unsafe.Pointer(&a.grh.dgid)) = v.GRH.DGID
	a.grh.flow_label, a.grh.sgid_index = C.uint32_t(v.GRH.FlowLabel), C.uint8_t(v.GRH.SGIDIndex)
	a.grh.hop_limit, a.grh.traffic_class = C.uint8_t(v.GRH.HopLimit), C.uint8_t(v.GRH.TrafficClass)
	a.dlid, a.sl, a.src_path_bits = C.uint16_t(v.DLID), C.uint8_t(v.SL), C.uint8_t(v.SrcPathBits)
	a.static_rate, a.port_num = C.uint8_t(v.StaticRate), C.uint8_t(v.PortNum)
	a.is_global = 0
	if v.IsGlobal {
		a.is_global = 1
	}
}
