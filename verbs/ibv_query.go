//go:build linux && cgo && !nolibibverbs

// The C wall: optional features of devices, and what the kernel reports in sysfs.

package verbs

// #include "ibv_query.h"
import "C"

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func (d *ibvDevice) QueryDeviceEx() (DeviceAttrEx, error) {
	var a C.struct_ibv_device_attr_ex
	if err := errnoErr(C.rv_query_device_ex(d.ctx, &a)); err != nil {
		return DeviceAttrEx{}, err
	}
	odp := &a.odp_caps
	return DeviceAttrEx{
		DeviceAttr: decodeDevice(&a.orig_attr),
		Caps:       DeviceCap(a.device_cap_flags_ex) | DeviceCap(a.orig_attr.device_cap_flags),
		ODP: ODPCaps{
			Supported: odp.general_caps&C.IBV_ODP_SUPPORT != 0,
			Implicit:  odp.general_caps&C.IBV_ODP_SUPPORT_IMPLICIT != 0,
			RC:        ODPOperations(odp.per_transport_caps.rc_odp_caps),
			UC:        ODPOperations(odp.per_transport_caps.uc_odp_caps),
			UD:        ODPOperations(odp.per_transport_caps.ud_odp_caps),
			XRC:       ODPOperations(a.xrc_odp_caps),
		},
		CompletionTimestampMask: uint64(a.completion_timestamp_mask),
		HCACoreClock:            uint64(a.hca_core_clock),
		MaxDMSize:               uint64(a.max_dm_size),
		PCIAtomics: PCIAtomicCaps{FetchAdd: uint16(a.pci_atomic_caps.fetch_add), Swap: uint16(a.pci_atomic_caps.swap),
			CompareSwap: uint16(a.pci_atomic_caps.compare_swap)},
		CQModeration: CQModerationCaps{MaxCount: uint16(a.cq_mod_caps.max_cq_count), MaxPeriod: uint16(a.cq_mod_caps.max_cq_period)},
		TSO:          TSOCaps{MaxTSO: uint32(a.tso_caps.max_tso), SupportedQPT: uint32(a.tso_caps.supported_qpts)},
		RSS: RSSCaps{SupportedQPT: uint32(a.rss_caps.supported_qpts),
			MaxRWQIndirectionTables:    uint32(a.rss_caps.max_rwq_indirection_tables),
			MaxRWQIndirectionTableSize: uint32(a.rss_caps.max_rwq_indirection_table_size),
			HashFields:                 uint64(a.rss_caps.rx_hash_fields_mask), HashFunction: uint8(a.rss_caps.rx_hash_function)},
		PacketPacing: PacketPacingCaps{RateMin: uint32(a.packet_pacing_caps.qp_rate_limit_min),
			RateMax: uint32(a.packet_pacing_caps.qp_rate_limit_max), SupportedQPT: uint32(a.packet_pacing_caps.supported_qpts)},
		TagMatching: TagMatchingCaps{MaxRndvHdrSize: uint32(a.tm_caps.max_rndv_hdr_size), MaxNumTags: uint32(a.tm_caps.max_num_tags),
			Flags: uint32(a.tm_caps.flags), MaxOps: uint32(a.tm_caps.max_ops), MaxSGE: uint32(a.tm_caps.max_sge)},
		MaxWQTypeRQ:   uint32(a.max_wq_type_rq),
		RawPacketCaps: uint32(a.raw_packet_caps),
	}, nil
}

func (d *ibvDevice) QueryRawClock() (uint64, error) {
	var ticks C.uint64_t
	err := errnoErr(C.rv_query_raw_clock(d.ctx, &ticks))
	return uint64(ticks), err
}

// QueryCounters reads the directories of counters in sysfs: the device's, and the port's two. A driver
// has some of them. Counters that cannot be read are left out, because some cards refuse some of theirs.
func (d *ibvDevice) QueryCounters(port uint8) (map[string]uint64, error) {
	root := C.GoString(&d.ctx.device.ibdev_path[0])
	ofPort := filepath.Join(root, "ports", strconv.Itoa(int(port)))
	all := make(map[string]uint64)
	found := false
	for _, dir := range []string{filepath.Join(root, "hw_counters"), filepath.Join(ofPort, "counters"), filepath.Join(ofPort, "hw_counters")} {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		found = true
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && f.Name() != "lifespan" {
				all[f.Name()] = n // lifespan is not a counter: it is how long the kernel caches values, in ms
			}
		}
	}
	if !found {
		return nil, syscall.EOPNOTSUPP
	}
	return all, nil
}

func (q *ibvQP) QueryECE() (ECE, error) {
	var c C.struct_ibv_ece
	err := errnoErr(C.rv_query_ece(q.qp, &c))
	return ECE{VendorID: uint32(c.vendor_id), Options: uint32(c.options)}, err
}

func (q *ibvQP) SetECE(e ECE) error {
	return errnoErr(C.rv_set_ece(q.qp, C.uint32_t(e.VendorID), C.uint32_t(e.Options)))
}

func (q *ibvQP) DataInOrder(op Opcode) (bool, error) {
	if op == 0 || op > OpAtomicWrite || op == OpFlush {
		return false, syscall.EINVAL
	}
	var ordered C.int
	err := errnoErr(C.rv_query_qp_data_in_order(q.qp, C.int(wrOpcodes[op]), &ordered))
	return ordered != 0, err
}
