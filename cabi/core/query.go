//go:build linux && cgo

// Attributes of the device, its port and its tables.

package main

// #include "../core.h"
import "C"

import (
	"math/bits"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

// UCX and others do not use a device whose maker is 0.
const vendorID, vendorPart = 0xffffff, 1

//export rv_query_device
func rv_query_device(handle C.rv_handle, out *C.struct_ibv_device_attr_ex) C.int {
	c := contexts.get(handle)
	v, err := c.QueryEx()
	if err != nil {
		return errnoOf(err)
	}
	guid := C.__be64(bits.ReverseBytes64(c.guid))
	*out = C.struct_ibv_device_attr_ex{
		orig_attr: C.struct_ibv_device_attr{
			node_guid: guid, sys_image_guid: guid,
			max_mr_size: C.uint64_t(v.MaxMRSize), page_size_cap: C.uint64_t(v.PageSizeCap),
			vendor_id: vendorID, vendor_part_id: vendorPart, hw_ver: C.uint32_t(v.HWVersion),
			max_qp: C.int(v.MaxQP), max_qp_wr: C.int(v.MaxQPWR), device_cap_flags: C.uint(v.CapFlags),
			max_sge: C.int(v.MaxSGE), max_sge_rd: C.int(v.MaxSGERd),
			max_cq: C.int(v.MaxCQ), max_cqe: C.int(v.MaxCQE), max_mr: C.int(v.MaxMR), max_pd: C.int(v.MaxPD),
			max_qp_rd_atom: C.int(v.MaxQPRdAtom), max_res_rd_atom: C.int(v.MaxResRdAtom), max_qp_init_rd_atom: C.int(v.MaxQPInitRdAtom),
			atomic_cap: uint32(v.AtomicCap), max_mw: C.int(v.MaxMW), max_ah: C.int(v.MaxAH),
			max_mcast_grp: C.int(v.MaxMcastGrp), max_mcast_qp_attach: C.int(v.MaxMcastQP), max_total_mcast_qp_attach: C.int(v.MaxMcastTotalQP),
			max_srq: C.int(v.MaxSRQ), max_srq_wr: C.int(v.MaxSRQWR), max_srq_sge: C.int(v.MaxSRQSGE),
			max_pkeys: C.uint16_t(v.MaxPKeys), local_ca_ack_delay: C.uint8_t(v.LocalCAAckDelay), phys_port_cnt: C.uint8_t(v.PhysPortCnt),
		},
		odp_caps:                  odpCaps(v.ODP),
		completion_timestamp_mask: C.uint64_t(v.CompletionTimestampMask), hca_core_clock: C.uint64_t(v.HCACoreClock),
		device_cap_flags_ex: C.uint64_t(v.Caps), phys_port_cnt_ex: C.uint32_t(v.PhysPortCnt),
		cq_mod_caps: C.struct_ibv_cq_moderation_caps{
			max_cq_count: C.uint16_t(v.CQModeration.MaxCount), max_cq_period: C.uint16_t(v.CQModeration.MaxPeriod),
		},
	}
	version := unsafe.Slice((*byte)(unsafe.Pointer(&out.orig_attr.fw_ver[0])), len(out.orig_attr.fw_ver)-1)
	copy(version, v.FirmwareVersion)
	return 0
}

func odpCaps(v verbs.ODPCaps) (out C.struct_ibv_odp_caps) {
	if v.Supported {
		out.general_caps |= C.IBV_ODP_SUPPORT | C.IBV_ODP_SUPPORT_IMPLICIT // rv_reg_mr makes implicit regions
	}
	out.per_transport_caps.rc_odp_caps = C.uint32_t(v.RC)
	out.per_transport_caps.uc_odp_caps = C.uint32_t(v.UC)
	out.per_transport_caps.ud_odp_caps = C.uint32_t(v.UD)
	return out
}

//export rv_query_port
func rv_query_port(handle C.rv_handle, port C.int, out *C.struct_ibv_port_attr) C.int {
	v, err := contexts.get(handle).QueryPort(uint8(port))
	if err != nil {
		return errnoOf(err)
	}
	*out = C.struct_ibv_port_attr{
		state: uint32(v.State), max_mtu: uint32(v.MaxMTU), active_mtu: uint32(v.ActiveMTU),
		gid_tbl_len: C.int(v.GIDTableLen), port_cap_flags: C.uint32_t(v.CapFlags), max_msg_sz: C.uint32_t(v.MaxMsgSize),
		pkey_tbl_len: C.uint16_t(v.PKeyTableLen), active_width: C.uint8_t(v.ActiveWidth), active_speed: C.uint8_t(v.ActiveSpeed),
		phys_state: C.uint8_t(v.PhysState), link_layer: C.uint8_t(v.LinkLayer),
		flags: C.IBV_QPF_GRH_REQUIRED,
	}
	return 0
}

//export rv_query_gid_table
func rv_query_gid_table(handle C.rv_handle, out *C.struct_ibv_gid_entry, size C.int) C.int {
	table, err := contexts.get(handle).QueryGIDTable()
	if err != nil {
		return -errnoOf(err)
	}
	if len(table) > 0 && table[0].Index != 0 {
		first := table[0]
		first.Index = 0
		table = append([]verbs.GIDEntry{first}, table...)
	}
	entries := unsafe.Slice(out, int(size))
	n := min(len(table), len(entries))
	for i, e := range table[:n] {
		entries[i] = C.struct_ibv_gid_entry{
			gid_index: C.uint32_t(e.Index), port_num: C.uint32_t(e.Port), gid_type: C.IBV_GID_TYPE_ROCE_V2, ndev_ifindex: C.uint32_t(e.IfIndex),
		}
		*(*verbs.GID)(unsafe.Pointer(&entries[i].gid)) = e.GID
	}
	return C.int(n)
}

// slot returns the slot of the GID table that a program names. Many programs know only slot 0,
// which is empty if the device has no link-local address. Then it stands for the first GID.
func (d *device) slot(index uint8) uint8 {
	if index != 0 {
		return index
	}
	if table, err := d.QueryGIDTable(); err == nil && len(table) > 0 {
		return uint8(table[0].Index)
	}
	return index
}

//export rv_query_pkey
func rv_query_pkey(handle C.rv_handle, port, index C.int, out *C.uint16_t) C.int {
	key, err := contexts.get(handle).QueryPKey(uint8(port), int(index))
	*out = C.uint16_t(key)
	return errnoOf(err)
}
