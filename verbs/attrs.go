// What a device and its ports say of themselves.

package verbs

import "fmt"

// DeviceInfo names a device that can be opened.
type DeviceInfo struct {
	Name      string // what Open takes: "rxe0"
	Provider  string // who serves it: "libibverbs"
	NodeType  NodeType
	Transport Transport
	GUID      uint64 // 0 if it cannot be known without opening
	Index     int    // the kernel's number of it, which no other gets; -1 if there is none
}

// String prints the name with its provider: "rxe0 (libibverbs)".
func (d DeviceInfo) String() string { return d.Name + " (" + d.Provider + ")" }

// NodeType is the kind of node a device is (enum ibv_node_type).
type NodeType uint32

// The node types in use: RoCE devices are channel adapters too.
const (
	NodeCA   NodeType = 1
	NodeRNIC NodeType = 4
)

// String is the C name: "IBV_NODE_CA".
func (n NodeType) String() string {
	return cName("IBV_NODE_", "ibv_node_type", uint32(n), "", "CA", "SWITCH", "ROUTER", "RNIC", "USNIC", "USNIC_UDP", "UNSPECIFIED")
}

// Transport is the protocol family of a device (enum ibv_transport_type).
type Transport uint32

// The transports in use: InfiniBand's includes RoCE.
const (
	TransportIB    Transport = 0
	TransportIWARP Transport = 1
)

// String is the C name: "IBV_TRANSPORT_IB".
func (t Transport) String() string {
	return cName("IBV_TRANSPORT_", "ibv_transport_type", uint32(t), "IB", "IWARP", "USNIC", "USNIC_UDP", "UNSPECIFIED")
}

// DeviceAttr holds a device's limits (struct ibv_device_attr). Counts are of
// objects, sizes in bytes.
type DeviceAttr struct {
	FirmwareVersion string
	NodeGUID        uint64
	SysImageGUID    uint64
	MaxMRSize       uint64
	PageSizeCap     uint64 // bit n set: pages of 2^n bytes
	VendorID        uint32
	VendorPartID    uint32
	HWVersion       uint32
	MaxQP           int
	MaxQPWR         int // work requests on one queue
	CapFlags        DeviceCap
	MaxSGE          int // elements of one send or receive
	MaxSGERd        int // elements of one READ
	MaxCQ           int
	MaxCQE          int // depth of one CQ
	MaxMR           int
	MaxPD           int
	MaxQPRdAtom     int // READs and atomics taken at a time, one QP
	MaxResRdAtom    int // the same, the whole device
	MaxQPInitRdAtom int // READs and atomics sent and unanswered, one QP
	AtomicCap       AtomicCap
	MaxMW           int
	MaxAH           int
	MaxSRQ          int
	MaxSRQWR        int
	MaxSRQSGE       int
	MaxPKeys        int
	LocalCAAckDelay uint8
	PhysPortCnt     int
}

// AtomicCap says how far a device's atomics reach (enum ibv_atomic_cap).
type AtomicCap uint32

// The reaches of atomics.
const (
	AtomicNone AtomicCap = iota
	AtomicHCA            // among QPs of one device
	AtomicGlob           // among devices and the CPU
)

// String is the C name: "IBV_ATOMIC_HCA".
func (a AtomicCap) String() string {
	return cName("IBV_ATOMIC_", "ibv_atomic_cap", uint32(a), "NONE", "HCA", "GLOB")
}

// PortState is a port's logical state (enum ibv_port_state).
type PortState uint32

// The port states.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

// String is the C name: "IBV_PORT_ACTIVE".
func (s PortState) String() string {
	return cName("IBV_PORT_", "ibv_port_state", uint32(s), "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
}

// LinkLayer is what runs below a port's transport.
type LinkLayer uint8

// The link layers; RoCE's is Ethernet.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

// String is the C name: "IBV_LINK_LAYER_ETHERNET".
func (l LinkLayer) String() string {
	return cName("IBV_LINK_LAYER_", "link_layer", uint32(l), "UNSPECIFIED", "INFINIBAND", "ETHERNET")
}

// PortAttr holds a port's attributes (struct ibv_port_attr).
type PortAttr struct {
	State        PortState
	MaxMTU       MTU
	ActiveMTU    MTU
	GIDTableLen  int
	CapFlags     uint32
	MaxMsgSize   uint32 // bytes
	PKeyTableLen int
	LID          uint16 // 0 on RoCE
	SMLID        uint16
	LMC          uint8
	ActiveWidth  uint8 // a code: 1 is one lane, 2 four, 4 eight, 8 twelve, 16 two
	ActiveSpeed  uint8 // a code of a lane's speed: 1 is 2.5 Gbit/s
	PhysState    uint8 // a code: 5 is link up
	LinkLayer    LinkLayer
}

// GIDType is the protocol a GID stands for (enum ibv_gid_type).
type GIDType uint32

// The GID types. RoCE v1 frames have no IP header; RoCE v2 runs over UDP.
const (
	GIDTypeIB GIDType = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

// String is the C name: "IBV_GID_TYPE_ROCE_V2".
func (t GIDType) String() string {
	return cName("IBV_GID_TYPE_", "ibv_gid_type", uint32(t), "IB", "ROCE_V1", "ROCE_V2")
}

// GIDEntry is one filled slot of a port's GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID     GID
	Port    uint8
	Index   int
	Type    GIDType
	IfIndex int    // of the network interface it came from, 0 if there is none
	Netdev  string // that interface's name, "" if it is not visible from here
}

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
