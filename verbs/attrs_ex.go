// What a device says of itself beyond its limits.

package verbs

import (
	"fmt"
	"strings"
)

// DeviceCap is what a device can do (enum ibv_device_cap_flags, and from bit 32 on
// the bits of device_cap_flags_ex).
type DeviceCap uint64

// The capabilities that concern this package's objects.
const (
	CapResizeMaxWR      DeviceCap = 1 << 0
	CapBadPKeyCntr      DeviceCap = 1 << 1
	CapBadQKeyCntr      DeviceCap = 1 << 2
	CapRawMulti         DeviceCap = 1 << 3
	CapAutoPathMig      DeviceCap = 1 << 4
	CapChangePhyPort    DeviceCap = 1 << 5
	CapUDAVPortEnforce  DeviceCap = 1 << 6
	CapCurrQPStateMod   DeviceCap = 1 << 7
	CapShutdownPort     DeviceCap = 1 << 8
	CapInitType         DeviceCap = 1 << 9
	CapPortActiveEvent  DeviceCap = 1 << 10
	CapSysImageGUID     DeviceCap = 1 << 11
	CapRCRNRNAKGen      DeviceCap = 1 << 12
	CapSRQResize        DeviceCap = 1 << 13
	CapNNotifyCQ        DeviceCap = 1 << 14
	CapMemWindow        DeviceCap = 1 << 17 // memory windows of type 1
	CapUDIPCsum         DeviceCap = 1 << 18
	CapXRC              DeviceCap = 1 << 20
	CapMemMgtExtensions DeviceCap = 1 << 21 // LOCAL_INV and SEND_WITH_INV
	CapMemWindowType2A  DeviceCap = 1 << 23 // windows of type 2 serve their domain
	CapMemWindowType2B  DeviceCap = 1 << 24 // windows of type 2 serve one queue pair
	CapRCIPCsum         DeviceCap = 1 << 25
	CapRawIPCsum        DeviceCap = 1 << 26
	CapFlowSteering     DeviceCap = 1 << 29
	CapRawScatterFCS    DeviceCap = 1 << 34
	CapPCIWriteEndPad   DeviceCap = 1 << 36
)

var capNames = map[DeviceCap]string{
	CapResizeMaxWR: "RESIZE_MAX_WR", CapBadPKeyCntr: "BAD_PKEY_CNTR", CapBadQKeyCntr: "BAD_QKEY_CNTR", CapRawMulti: "RAW_MULTI",
	CapAutoPathMig: "AUTO_PATH_MIG", CapChangePhyPort: "CHANGE_PHY_PORT", CapUDAVPortEnforce: "UD_AV_PORT_ENFORCE",
	CapCurrQPStateMod: "CURR_QP_STATE_MOD", CapShutdownPort: "SHUTDOWN_PORT", CapInitType: "INIT_TYPE",
	CapPortActiveEvent: "PORT_ACTIVE_EVENT", CapSysImageGUID: "SYS_IMAGE_GUID", CapRCRNRNAKGen: "RC_RNR_NAK_GEN",
	CapSRQResize: "SRQ_RESIZE", CapNNotifyCQ: "N_NOTIFY_CQ", CapMemWindow: "MEM_WINDOW", CapUDIPCsum: "UD_IP_CSUM", CapXRC: "XRC",
	CapMemMgtExtensions: "MEM_MGT_EXTENSIONS", CapMemWindowType2A: "MEM_WINDOW_TYPE_2A", CapMemWindowType2B: "MEM_WINDOW_TYPE_2B",
	CapRCIPCsum: "RC_IP_CSUM", CapRawIPCsum: "RAW_IP_CSUM", CapFlowSteering: "MANAGED_FLOW_STEERING",
	CapRawScatterFCS: "RAW_SCATTER_FCS", CapPCIWriteEndPad: "PCI_WRITE_END_PADDING",
}

// String lists the capabilities by their C names, "0" for none.
func (c DeviceCap) String() string {
	var parts []string
	for bit := DeviceCap(1); bit != 0; bit <<= 1 {
		if name := capNames[bit]; name != "" && c&bit != 0 {
			parts, c = append(parts, "IBV_DEVICE_"+name), c&^bit
		}
	}
	if c != 0 {
		parts = append(parts, fmt.Sprintf("%#x", uint64(c)))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, "|")
}

// DeviceAttrEx is the limits, and what devices differ in (struct
// ibv_device_attr_ex). What a device does not have is zero.
type DeviceAttrEx struct {
	DeviceAttr
	Caps                    DeviceCap // all of them: CapFlags is the lower half
	ODP                     ODPCaps
	CompletionTimestampMask uint64 // the bits that completion timestamps have; 0: there are none
	HCACoreClock            uint64 // ticks of the timestamps' clock in a millisecond: kHz
	MaxDMSize               uint64 // bytes of memory on the device
	PCIAtomics              PCIAtomicCaps
	CQModeration            CQModerationCaps
	TSO                     TSOCaps
	RSS                     RSSCaps
	PacketPacing            PacketPacingCaps
	TagMatching             TagMatchingCaps
	MaxWQTypeRQ             uint32 // receive work queues
	RawPacketCaps           uint32 // bits of enum ibv_raw_packet_caps
}

// ODPCaps is what of on-demand paging there is (struct ibv_odp_caps): whether
// regions may be registered with [AccessOnDemand], and which operations may then
// meet a page that is not in memory.
type ODPCaps struct {
	Supported bool
	Implicit  bool // a region may be the whole address space
	RC        ODPOperations
	UC        ODPOperations
	UD        ODPOperations
	XRC       ODPOperations
}

// ODPOperations is a set of operations (enum ibv_odp_transport_cap_bits).
type ODPOperations uint32

// The operations.
const (
	ODPSend    ODPOperations = 1 << 0
	ODPRecv    ODPOperations = 1 << 1
	ODPWrite   ODPOperations = 1 << 2
	ODPRead    ODPOperations = 1 << 3
	ODPAtomic  ODPOperations = 1 << 4
	ODPSRQRecv ODPOperations = 1 << 5
)

// String lists the operations by their C names, "0" for none.
func (o ODPOperations) String() string {
	return cFlags("IBV_ODP_SUPPORT_", uint32(o), "SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ_RECV")
}

// PCIAtomicCaps is the sizes of atomics that the device can do on the bus, towards
// memory of the host and of other devices: bit n stands for 4<<n bytes.
type PCIAtomicCaps struct{ FetchAdd, Swap, CompareSwap uint16 }

// CQModerationCaps is how far completion events can be held back.
type CQModerationCaps struct {
	MaxCount  uint16 // completions an event
	MaxPeriod uint16 // microseconds
}

// TSOCaps is about raw packets cut by the device.
type TSOCaps struct {
	MaxTSO       uint32 // bytes
	SupportedQPT uint32 // bit n: queue pairs of enum ibv_qp_type n
}

// RSSCaps is about raw packets spread over receive queues.
type RSSCaps struct {
	SupportedQPT               uint32 // bit n: queue pairs of enum ibv_qp_type n
	MaxRWQIndirectionTables    uint32
	MaxRWQIndirectionTableSize uint32
	HashFields                 uint64 // bits of enum ibv_rx_hash_fields
	HashFunction               uint8  // bits of enum ibv_rx_hash_function_flags
}

// PacketPacingCaps is the rates that a queue pair can be held to.
type PacketPacingCaps struct {
	RateMin, RateMax uint32 // kbit/s
	SupportedQPT     uint32 // bit n: queue pairs of enum ibv_qp_type n
}

// TagMatchingCaps is about receives that are chosen by a tag.
type TagMatchingCaps struct {
	MaxRndvHdrSize uint32 // bytes
	MaxNumTags     uint32
	Flags          uint32 // bits of enum ibv_tm_cap_flags
	MaxOps         uint32
	MaxSGE         uint32
}

// QueryEx reads the device's limits and what it has besides. A device that has
// nothing besides is no error.
//
// Implements: int ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
func (d *Device) QueryEx() (DeviceAttrEx, error) {
	return query(d, "ibv_query_device_ex", "", func() (DeviceAttrEx, error) {
		if p, err := optional[DeviceExProvider](d.p); err == nil {
			return p.QueryDeviceEx()
		}
		a, err := d.p.QueryDevice()
		return DeviceAttrEx{DeviceAttr: a, Caps: a.CapFlags}, err
	})
}

// QueryRawClock reads the clock that completion timestamps count, in ticks:
// [DeviceAttrEx.HCACoreClock] of them are a millisecond. errors.ErrUnsupported if
// the device does not have one that can be read.
//
// Implements: int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
func (d *Device) QueryRawClock() (ticks uint64, err error) {
	return query(d, "ibv_query_rt_values_ex", "", func() (uint64, error) {
		p, err := optional[ClockProvider](d.p)
		if err != nil {
			return 0, err
		}
		return p.QueryRawClock()
	})
}
