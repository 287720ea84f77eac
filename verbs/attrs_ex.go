// Extended attributes of devices, beyond the limits.

package verbs

import (
	"fmt"
	"strings"
)

// DeviceCap is a set of capabilities of a device (enum ibv_device_cap_flags, and from bit 32 on
// the bits of device_cap_flags_ex).
type DeviceCap uint64

// The capabilities that libibverbs names.
const (
	CapResizeMaxWR      DeviceCap = 1 << 0  // the queues of a queue pair can be resized
	CapBadPKeyCntr      DeviceCap = 1 << 1  // ports count packets with a wrong partition key
	CapBadQKeyCntr      DeviceCap = 1 << 2  // ports count datagrams with a wrong queue key
	CapRawMulti         DeviceCap = 1 << 3  // multicast of raw packets
	CapAutoPathMig      DeviceCap = 1 << 4  // queue pairs move to their second path by themselves
	CapChangePhyPort    DeviceCap = 1 << 5  // a queue pair can change its port in SQD
	CapUDAVPortEnforce  DeviceCap = 1 << 6  // a datagram's address handle must have the queue pair's port
	CapCurrQPStateMod   DeviceCap = 1 << 7  // QP.Modify takes CUR_STATE
	CapShutdownPort     DeviceCap = 1 << 8  // ports can be shut down
	CapInitType         DeviceCap = 1 << 9  // a port can ask the subnet manager for a kind of initialization
	CapPortActiveEvent  DeviceCap = 1 << 10 // EventPortActive is reported
	CapSysImageGUID     DeviceCap = 1 << 11 // DeviceAttr.SysImageGUID is set
	CapRCRNRNAKGen      DeviceCap = 1 << 12 // on RC a missing receive is reported to the sender, which waits and sends again
	CapSRQResize        DeviceCap = 1 << 13 // SRQ.Modify takes SRQMaxWR
	CapNNotifyCQ        DeviceCap = 1 << 14 // a CQ can be armed for a number of completions; unrelated to CQ.Moderate
	CapMemWindow        DeviceCap = 1 << 17 // memory windows of type 1
	CapUDIPCsum         DeviceCap = 1 << 18 // the device computes the checksums of IP over UD
	CapXRC              DeviceCap = 1 << 20 // XRC, which this package does not support
	CapMemMgtExtensions DeviceCap = 1 << 21 // LOCAL_INV and SEND_WITH_INV
	CapMemWindowType2A  DeviceCap = 1 << 23 // windows of type 2; the number of their queue pair guards them
	CapMemWindowType2B  DeviceCap = 1 << 24 // windows of type 2; the number and the domain of their queue pair guard them
	CapRCIPCsum         DeviceCap = 1 << 25 // the device computes the checksums of IP over RC
	CapRawIPCsum        DeviceCap = 1 << 26 // the device computes the checksums of IP in raw packets
	CapFlowSteering     DeviceCap = 1 << 29 // rules that steer raw packets to queues
	CapRawScatterFCS    DeviceCap = 1 << 34 // raw packets can be received with their checksum
	CapPCIWriteEndPad   DeviceCap = 1 << 36 // writes to memory can be padded to whole cache lines
	CapFlushGlobal      DeviceCap = 1 << 38 // FLUSH until all CPUs and devices of the machine see the data
	CapFlushPersistent  DeviceCap = 1 << 39 // FLUSH to persistent memory
	CapAtomicWrite      DeviceCap = 1 << 40 // ATOMIC WRITE
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
	CapFlushGlobal: "FLUSH_GLOBAL", CapFlushPersistent: "FLUSH_PERSISTENT", CapAtomicWrite: "ATOMIC_WRITE",
}

// String lists the capabilities by their C names. No capabilities give "0".
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

// DeviceAttrEx holds a device's limits and its extended attributes (struct ibv_device_attr_ex).
// Attributes that the device does not have are zero.
type DeviceAttrEx struct {
	DeviceAttr                               // the limits, as Device.Query reads them
	Caps                    DeviceCap        // all capabilities; CapFlags is the lower half
	ODP                     ODPCaps          // on-demand paging
	CompletionTimestampMask uint64           // the valid bits of completion timestamps; 0: there are no timestamps
	HCACoreClock            uint64           // frequency of the timestamps' clock in kHz: ticks per millisecond
	MaxDMSize               uint64           // bytes of memory on the device
	PCIAtomics              PCIAtomicCaps    // atomics on the bus
	CQModeration            CQModerationCaps // limits of CQ.Moderate; some devices moderate and report 0
	TSO                     TSOCaps          // raw packets only
	RSS                     RSSCaps          // raw packets only
	PacketPacing            PacketPacingCaps // the rates for QPAttr.RateLimit
	TagMatching             TagMatchingCaps  // this package does not support tag matching
	MaxWQTypeRQ             uint32           // receive work queues
	RawPacketCaps           uint32           // bits of enum ibv_raw_packet_caps
}

// ODPCaps describes on-demand paging (struct ibv_odp_caps): whether regions may be registered with
// [AccessOnDemand], and which operations may then use a page that is not in memory.
type ODPCaps struct {
	Supported bool          // AccessOnDemand works
	Implicit  bool          // a region may be the whole address space
	RC        ODPOperations // operations of RC queue pairs
	UC        ODPOperations // operations of UC queue pairs
	UD        ODPOperations // operations of UD queue pairs
	XRC       ODPOperations // operations of XRC queue pairs
}

// ODPOperations is a set of operations (enum ibv_odp_transport_cap_bits).
type ODPOperations uint32

// The operations.
const (
	ODPSend    ODPOperations = 1 << 0 // SENDs, at the sender
	ODPRecv    ODPOperations = 1 << 1 // receives, at the receiver
	ODPWrite   ODPOperations = 1 << 2 // RDMA WRITEs, at both ends
	ODPRead    ODPOperations = 1 << 3 // RDMA READs, at both ends
	ODPAtomic  ODPOperations = 1 << 4 // atomics, at both ends
	ODPSRQRecv ODPOperations = 1 << 5 // receives from an SRQ

	ODPFlush       ODPOperations = 1 << 6 // FLUSHes, at the responder
	ODPAtomicWrite ODPOperations = 1 << 7 // ATOMIC WRITEs, at both ends
)

// String lists the operations by their C names. No operations give "0".
func (o ODPOperations) String() string {
	return cFlags("IBV_ODP_SUPPORT_", uint32(o), "SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ_RECV",
		"FLUSH", "ATOMIC_WRITE")
}

// PCIAtomicCaps lists the sizes of atomics that the device can do on the bus, to memory of the
// host and of other devices (struct ibv_pci_atomic_caps). Bit n stands for 4<<n bytes.
type PCIAtomicCaps struct {
	FetchAdd    uint16 // sizes of fetch-and-add
	Swap        uint16 // sizes of an unconditional swap
	CompareSwap uint16 // sizes of compare-and-swap
}

// CQModerationCaps holds the limits of [CQ.Moderate] (struct ibv_cq_moderation_caps).
type CQModerationCaps struct {
	MaxCount  uint16 // completions per event
	MaxPeriod uint16 // microseconds
}

// TSOCaps describes raw packets that the device segments (struct ibv_tso_caps).
type TSOCaps struct {
	MaxTSO       uint32 // bytes of one packet before segmentation
	SupportedQPT uint32 // bit n: queue pairs of enum ibv_qp_type n
}

// RSSCaps describes raw packets that the device spreads over receive queues (struct ibv_rss_caps).
type RSSCaps struct {
	SupportedQPT               uint32 // bit n: queue pairs of enum ibv_qp_type n
	MaxRWQIndirectionTables    uint32 // tables of receive queues
	MaxRWQIndirectionTableSize uint32 // queues in one table
	HashFields                 uint64 // bits of enum ibv_rx_hash_fields
	HashFunction               uint8  // bits of enum ibv_rx_hash_function_flags
}

// PacketPacingCaps holds the limits of a queue pair's rate (struct ibv_packet_pacing_caps).
type PacketPacingCaps struct {
	RateMin, RateMax uint32 // kbit/s
	SupportedQPT     uint32 // bit n: queue pairs of enum ibv_qp_type n
}

// TagMatchingCaps describes receives that are selected by a tag (struct ibv_tm_caps).
type TagMatchingCaps struct {
	MaxRndvHdrSize uint32 // bytes of a rendezvous header
	MaxNumTags     uint32 // tags in one list
	Flags          uint32 // bits of enum ibv_tm_cap_flags
	MaxOps         uint32 // operations on a list that may be outstanding
	MaxSGE         uint32 // elements of a tagged receive
}

// QueryEx reads the device's limits and its extended attributes. Devices without extended
// attributes succeed.
//
// Implements: int ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
func (d *Device) QueryEx() (DeviceAttrEx, error) {
	return query(&d.handle, "ibv_query_device_ex", "", func() (DeviceAttrEx, error) {
		if p, err := optional[ProviderDeviceEx](d.p); err == nil {
			return p.QueryDeviceEx()
		}
		a, err := d.p.QueryDevice()
		return DeviceAttrEx{DeviceAttr: a, Caps: a.CapFlags}, err
	})
}

// QueryRawClock reads the clock of the completion timestamps, in ticks. [DeviceAttrEx.HCACoreClock]
// is the number of ticks per millisecond. errors.ErrUnsupported if the device has no readable
// clock.
//
// Implements: int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
func (d *Device) QueryRawClock() (ticks uint64, err error) {
	return queryOptional(&d.handle, d.p, "ibv_query_rt_values_ex", "", ProviderClock.QueryRawClock)
}
