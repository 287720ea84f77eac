// What a device and its ports say of themselves.

package verbs

import "fmt"

// DeviceInfo names a device that can be opened, and says what is known of it before
// that. It is a plain value.
//
// Reads: name, node_type and transport_type of struct ibv_device; see [Devices].
type DeviceInfo struct {
	Name      string    // what Open takes: "rxe0"
	Provider  string    // who serves it: "libibverbs"
	NodeType  NodeType  // a channel adapter, or an iWARP card
	Transport Transport // the protocol family
	GUID      uint64    // in host order; 0 if it cannot be known without opening
	Index     int       // the kernel's number of it, which no other gets; -1 if there is none
}

// String prints the name with its provider: "rxe0 (libibverbs)".
func (d DeviceInfo) String() string { return d.Name + " (" + d.Provider + ")" }

// NodeType is the kind of node a device is (enum ibv_node_type).
type NodeType uint32

// The node types in use: RoCE devices are channel adapters too.
const (
	NodeCA   NodeType = 1 // a channel adapter: InfiniBand and RoCE
	NodeRNIC NodeType = 4 // an RDMA card of iWARP
)

// String is the C name: "IBV_NODE_CA".
func (n NodeType) String() string {
	return cName("IBV_NODE_", "ibv_node_type", uint32(n), "", "CA", "SWITCH", "ROUTER", "RNIC", "USNIC", "USNIC_UDP", "UNSPECIFIED")
}

// Transport is the protocol family of a device (enum ibv_transport_type).
type Transport uint32

// The transports in use: InfiniBand's includes RoCE.
const (
	TransportIB    Transport = 0 // InfiniBand's, RoCE among it
	TransportIWARP Transport = 1 // RDMA over TCP
)

// String is the C name: "IBV_TRANSPORT_IB".
func (t Transport) String() string {
	return cName("IBV_TRANSPORT_", "ibv_transport_type", uint32(t), "IB", "IWARP", "USNIC", "USNIC_UDP", "UNSPECIFIED")
}

// VendorRXE is the VendorID of rdma_rxe, the kernel's device in software.
const VendorRXE = 0xffffff

// DeviceAttr holds a device's limits (struct ibv_device_attr), as [Device.Query] read
// them. Limits of objects are for the whole device, all processes together; the device does
// not report how many are free.
type DeviceAttr struct {
	FirmwareVersion string    // as the maker writes it
	NodeGUID        uint64    // the device's own name, in host order
	SysImageGUID    uint64    // the name of the machine or card that it is part of, in host order
	MaxMRSize       uint64    // bytes of one region
	PageSizeCap     uint64    // bit n set: pages of 2^n bytes
	VendorID        uint32    // the maker's IEEE OUI, or VendorRXE
	VendorPartID    uint32    // the maker's own number of the product
	HWVersion       uint32    // the maker's own number of its revision
	MaxQP           int       // queue pairs
	MaxQPWR         int       // work requests on one queue
	CapFlags        DeviceCap // what it can do; [DeviceAttrEx.Caps] has more of them
	MaxSGE          int       // elements of one send or receive
	MaxSGERd        int       // elements of one READ
	MaxCQ           int       // completion queues
	MaxCQE          int       // depth of one CQ
	MaxMR           int       // memory regions
	MaxPD           int       // protection domains
	MaxQPRdAtom     int       // READs and atomics taken at a time, one QP
	MaxResRdAtom    int       // the same, the whole device
	MaxQPInitRdAtom int       // READs and atomics sent and unanswered, one QP
	AtomicCap       AtomicCap // how far its atomics reach
	MaxMW           int       // memory windows
	MaxAH           int       // address handles; 0 from drivers that do not limit them
	MaxSRQ          int       // shared receive queues; 0: it has none
	MaxSRQWR        int       // receives in one SRQ
	MaxSRQSGE       int       // elements of one of these
	MaxPKeys        int       // partition keys of one port
	MaxMcastGrp     int       // multicast groups; 0: it has no multicast
	MaxMcastQP      int       // queue pairs of one multicast group
	MaxMcastTotalQP int       // memberships of all groups together
	LocalCAAckDelay uint8     // its part in the wait for an ACK, a code: 4.096 µs · 2^n
	PhysPortCnt     int       // ports; they count from 1
}

// AtomicCap says how far a device's atomics reach (enum ibv_atomic_cap).
type AtomicCap uint32

// The reaches of atomics.
const (
	AtomicNone AtomicCap = iota // it has no atomics
	AtomicHCA                   // among QPs of one device
	AtomicGlob                  // among devices and the CPU
)

// String is the C name: "IBV_ATOMIC_HCA".
func (a AtomicCap) String() string {
	return cName("IBV_ATOMIC_", "ibv_atomic_cap", uint32(a), "NONE", "HCA", "GLOB")
}

// PortState is a port's logical state (enum ibv_port_state).
type PortState uint32

// The port states.
const (
	PortNop         PortState = iota // none: the state did not change
	PortDown                         // no link: the cable, or the network interface, is down
	PortInit                         // the link is there; InfiniBand: the subnet manager has not configured it
	PortArmed                        // configured, and not yet to be used
	PortActive                       // ready for traffic: the only state in which there is any
	PortActiveDefer                  // active, while its link is being restored
)

// String is the C name: "IBV_PORT_ACTIVE".
func (s PortState) String() string {
	return cName("IBV_PORT_", "ibv_port_state", uint32(s), "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
}

// LinkLayer is what runs below a port's transport (IBV_LINK_LAYER_*).
type LinkLayer uint8

// The link layers; RoCE's is Ethernet.
const (
	LinkUnspecified LinkLayer = iota // of a kernel that does not report it: InfiniBand
	LinkInfiniBand                   // InfiniBand's own: peers have LIDs
	LinkEthernet                     // Ethernet: RoCE and iWARP; peers have GIDs and no LIDs
)

// String is the C name: "IBV_LINK_LAYER_ETHERNET".
func (l LinkLayer) String() string {
	return cName("IBV_LINK_LAYER_", "link_layer", uint32(l), "UNSPECIFIED", "INFINIBAND", "ETHERNET")
}

// PortAttr holds a port's attributes (struct ibv_port_attr), as [Device.QueryPort]
// read them: cables, addresses and MTUs change.
type PortAttr struct {
	State        PortState // only [PortActive] carries traffic
	MaxMTU       MTU       // the largest path MTU that the port can have
	ActiveMTU    MTU       // the largest that it has now: on RoCE by its network interface's MTU
	GIDTableLen  int       // slots of the GID table, empty ones too
	CapFlags     uint32    // bits of enum ibv_port_cap_flags
	MaxMsgSize   uint32    // bytes of one message
	PKeyTableLen int       // slots of the partition key table
	LID          uint16    // 0 on RoCE
	SMLID        uint16    // InfiniBand: the subnet manager's LID
	LMC          uint8     // InfiniBand: the port has 2^LMC LIDs, from LID on
	ActiveWidth  uint8     // a code: 1 is one lane, 2 four, 4 eight, 8 twelve, 16 two
	ActiveSpeed  uint8     // a code of a lane's speed: 1 is 2.5 Gbit/s
	PhysState    uint8     // a code: 5 is link up
	LinkLayer    LinkLayer // InfiniBand, or Ethernet for RoCE
}

// GIDType is the protocol a GID stands for (enum ibv_gid_type).
type GIDType uint32

// The GID types. RoCE v1 frames have no IP header; RoCE v2 runs over UDP.
const (
	GIDTypeIB     GIDType = iota // InfiniBand
	GIDTypeRoCEv1                // RDMA frames straight over Ethernet: they do not pass a router
	GIDTypeRoCEv2                // over UDP port 4791 and IP: what soft0 and today's networks have
)

// String is the C name: "IBV_GID_TYPE_ROCE_V2".
func (t GIDType) String() string {
	return cName("IBV_GID_TYPE_", "ibv_gid_type", uint32(t), "IB", "ROCE_V1", "ROCE_V2")
}

// GIDEntry is one filled slot of a port's GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID     GID     // the address
	Port    uint8   // whose table it is in; ports count from 1
	Index   int     // the slot: what GRH.SGIDIndex takes, if it is at most 255
	Type    GIDType // the protocol spoken from it
	IfIndex int     // of the network interface it came from, 0 if there is none
	Netdev  string  // that interface's name, "" if it is not visible from here
}

// To returns the way from this slot to a peer's GID, for [PD.CreateAH] and for a queue pair's
// move to RTR. The slot must be one that a path can name, as ChooseGID's is: its Index is at
// most 255. On InfiniBand DLID is left for the caller to set.
func (e GIDEntry) To(peer GID) AHAttr {
	return AHAttr{IsGlobal: true, PortNum: e.Port, GRH: GRH{DGID: peer, SGIDIndex: uint8(e.Index), HopLimit: hopLimit}}
}

// hopLimit is how many routers a packet may pass: what IP's hosts begin with.
const hopLimit = 64

// String prints the slot: "1: ::ffff:10.0.0.1 RoCE v2 on eth0".
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
