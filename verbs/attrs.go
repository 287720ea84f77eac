// Attributes of devices and ports.

package verbs

import "fmt"

// DeviceInfo describes a device before it is opened. It is a plain value.
//
// Reads: name, node_type and transport_type of struct ibv_device; see [Devices].
type DeviceInfo struct {
	Name      string    // the name for Open: "rxe0"
	Provider  string    // the provider that serves the device: "libibverbs"
	NodeType  NodeType  // a channel adapter, or an iWARP card
	Transport Transport // the protocol family
	GUID      uint64    // in host order; 0 if it is known only after opening
	Index     int       // the kernel's number of the device, which is never reused; -1 if there is none
	InProcess bool      // this process is the device, and sends packets over the host's IP networks
}

// String returns the name and the provider: "rxe0 (libibverbs)".
func (d DeviceInfo) String() string { return d.Name + " (" + d.Provider + ")" }

// NodeType is the kind of a device (enum ibv_node_type).
type NodeType uint32

// The node types in use. RoCE devices are channel adapters too.
const (
	NodeCA   NodeType = 1 // a channel adapter: InfiniBand and RoCE
	NodeRNIC NodeType = 4 // an RDMA card of iWARP
)

// String returns the C name: "IBV_NODE_CA".
func (n NodeType) String() string {
	return cName("IBV_NODE_", "ibv_node_type", uint32(n), "", "CA", "SWITCH", "ROUTER", "RNIC", "USNIC", "USNIC_UDP", "UNSPECIFIED")
}

// Transport is the protocol family of a device (enum ibv_transport_type).
type Transport uint32

// The transports in use.
const (
	TransportIB    Transport = 0 // InfiniBand, including RoCE
	TransportIWARP Transport = 1 // RDMA over TCP
)

// String returns the C name: "IBV_TRANSPORT_IB".
func (t Transport) String() string {
	return cName("IBV_TRANSPORT_", "ibv_transport_type", uint32(t), "IB", "IWARP", "USNIC", "USNIC_UDP", "UNSPECIFIED")
}

// VendorRXE is the VendorID of rdma_rxe, the kernel's device in software.
const VendorRXE = 0xffffff

// DeviceAttr holds a device's limits (struct ibv_device_attr), from [Device.Query]. Limits on
// numbers of objects are for the whole device and all processes together. The device does not
// report how many objects are free.
type DeviceAttr struct {
	FirmwareVersion string    // in the maker's format
	NodeGUID        uint64    // the device's own GUID, in host order
	SysImageGUID    uint64    // GUID of the machine or card that contains the device, in host order
	MaxMRSize       uint64    // bytes of one region
	PageSizeCap     uint64    // bit n set: the device supports pages of 2^n bytes
	VendorID        uint32    // the maker's IEEE OUI, or VendorRXE
	VendorPartID    uint32    // the maker's number of the product
	HWVersion       uint32    // the maker's number of the hardware revision
	MaxQP           int       // queue pairs
	MaxQPWR         int       // work requests on one queue
	CapFlags        DeviceCap // capabilities; [DeviceAttrEx.Caps] has more of them
	MaxSGE          int       // elements of one send or receive
	MaxSGERd        int       // elements of one READ
	MaxCQ           int       // completion queues
	MaxCQE          int       // entries of one CQ
	MaxMR           int       // memory regions
	MaxPD           int       // protection domains
	MaxQPRdAtom     int       // incoming READs and atomics in progress, per QP
	MaxResRdAtom    int       // incoming READs and atomics in progress, for the whole device
	MaxQPInitRdAtom int       // outgoing READs and atomics in progress, per QP
	AtomicCap       AtomicCap // which other accesses the device's atomics exclude
	MaxMW           int       // memory windows
	MaxAH           int       // address handles; 0 from drivers that do not limit them
	MaxSRQ          int       // shared receive queues; 0: the device has none
	MaxSRQWR        int       // receives in one SRQ
	MaxSRQSGE       int       // elements of one receive in an SRQ
	MaxPKeys        int       // partition keys of one port
	MaxMcastGrp     int       // multicast groups; 0: the device has no multicast
	MaxMcastQP      int       // queue pairs in one multicast group
	MaxMcastTotalQP int       // memberships of all groups together
	LocalCAAckDelay uint8     // the device's delay before an ACK, a code: 4.096 µs · 2^n
	PhysPortCnt     int       // ports; they count from 1
}

// AtomicCap says which other accesses a device's atomics exclude (enum ibv_atomic_cap).
type AtomicCap uint32

// The scopes of atomics.
const (
	AtomicNone AtomicCap = iota // the device has no atomics
	AtomicHCA                   // atomic among the QPs of one device
	AtomicGlob                  // atomic among all devices and the CPU
)

// String returns the C name: "IBV_ATOMIC_HCA".
func (a AtomicCap) String() string {
	return cName("IBV_ATOMIC_", "ibv_atomic_cap", uint32(a), "NONE", "HCA", "GLOB")
}

// PortState is a port's logical state (enum ibv_port_state).
type PortState uint32

// The port states.
const (
	PortNop         PortState = iota // reserved: no state change
	PortDown                         // no link: the cable, or the network interface, is down
	PortInit                         // the link is up; on InfiniBand the subnet manager has not configured the port
	PortArmed                        // configured, not yet active
	PortActive                       // ready for traffic; no other state carries traffic
	PortActiveDefer                  // active, while the link recovers
)

// String returns the C name: "IBV_PORT_ACTIVE".
func (s PortState) String() string {
	return cName("IBV_PORT_", "ibv_port_state", uint32(s), "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
}

// LinkLayer is the protocol below a port's transport (IBV_LINK_LAYER_*).
type LinkLayer uint8

// The link layers.
const (
	LinkUnspecified LinkLayer = iota // from a kernel that does not report the link layer; means InfiniBand
	LinkInfiniBand                   // InfiniBand: peers have LIDs
	LinkEthernet                     // Ethernet: RoCE and iWARP; peers have GIDs and no LIDs
)

// String returns the C name: "IBV_LINK_LAYER_ETHERNET".
func (l LinkLayer) String() string {
	return cName("IBV_LINK_LAYER_", "link_layer", uint32(l), "UNSPECIFIED", "INFINIBAND", "ETHERNET")
}

// PortAttr holds a port's attributes (struct ibv_port_attr), from [Device.QueryPort]. They change
// with cables, addresses and MTUs.
type PortAttr struct {
	State        PortState // only [PortActive] carries traffic
	MaxMTU       MTU       // the largest path MTU that the port supports
	ActiveMTU    MTU       // the largest path MTU now; on RoCE it depends on the network interface's MTU
	GIDTableLen  int       // slots of the GID table, including empty slots
	CapFlags     uint32    // bits of enum ibv_port_cap_flags
	MaxMsgSize   uint32    // bytes of one message
	PKeyTableLen int       // slots of the partition key table
	LID          uint16    // 0 on RoCE
	SMLID        uint16    // InfiniBand: the subnet manager's LID
	LMC          uint8     // InfiniBand: the port has 2^LMC LIDs, from LID on
	ActiveWidth  uint8     // a code: 1 is one lane, 2 is four, 4 is eight, 8 is twelve, 16 is two; see Lanes
	ActiveSpeed  uint8     // a code for the speed of a lane: 1 is 2.5 Gbit/s; see GbitPerSecond
	PhysState    uint8     // a code: 5 means that the link is up
	LinkLayer    LinkLayer // InfiniBand, or Ethernet for RoCE
}

// GIDType is the protocol that a GID belongs to (enum ibv_gid_type).
type GIDType uint32

// The GID types. RoCE v1 frames have no IP header; RoCE v2 runs over UDP.
const (
	GIDTypeIB     GIDType = iota // InfiniBand
	GIDTypeRoCEv1                // RDMA directly over Ethernet: packets cannot pass a router
	GIDTypeRoCEv2                // RDMA over UDP port 4791: what soft0 and today's networks use
)

// String returns the C name: "IBV_GID_TYPE_ROCE_V2".
func (t GIDType) String() string {
	return cName("IBV_GID_TYPE_", "ibv_gid_type", uint32(t), "IB", "ROCE_V1", "ROCE_V2")
}

// GIDEntry is one filled slot of a port's GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID     GID     // the address
	Port    uint8   // the port that the table belongs to; ports count from 1
	Index   int     // the slot, for GRH.SGIDIndex if it is at most 255
	Type    GIDType // the protocol of this GID
	IfIndex int     // index of the network interface with this address, 0 if there is none
	Netdev  string  // name of that interface, "" if it is in another network namespace
}

// To returns the path from this slot to a peer's GID, for [PD.CreateAH] and for a queue pair's
// move to RTR. The slot's Index must be at most 255, as for slots from [ChooseGID]. On InfiniBand
// the caller must set DLID.
func (e GIDEntry) To(peer GID) AHAttr {
	return AHAttr{IsGlobal: true, PortNum: e.Port, GRH: GRH{DGID: peer, SGIDIndex: uint8(e.Index), HopLimit: hopLimit}}
}

// hopLimit is the number of routers that a packet may pass: the usual default of IP hosts.
const hopLimit = 64

// String returns the slot: "1: ::ffff:10.0.0.1 RoCE v2 on eth0".
func (e GIDEntry) String() string {
	text := fmt.Sprintf("%d: %s", e.Index, e.GID)
	switch e.Type {
	case GIDTypeIB:
		text += " IB"
	case GIDTypeRoCEv1:
		text += " RoCE v1"
	case GIDTypeRoCEv2:
		text += " RoCE v2"
	default:
		text += " " + e.Type.String()
	}
	if e.Netdev != "" {
		text += " on " + e.Netdev
	}
	return text
}
