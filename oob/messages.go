package oob

// The messages as Go values: Hello, Endpoint, Region and Note, and the rules of each value. The
// native_*.go files encode the values.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pkg/errors"
)

// DefaultPort is the TCP port that RDMA example programs traditionally use.
const DefaultPort = 18515

// Limits of the values. The sender returns an error, before it sends anything, for a
// message over a limit. The receiver returns a [*ProtocolError].
const (
	MaxName       = 64   // bytes in a job, barrier, note or step name
	MaxProgram    = 128  // bytes in Hello.Program
	MaxParams     = 32   // entries in Hello.Params
	MaxParamKey   = 32   // bytes in a key of Hello.Params
	MaxParamValue = 255  // bytes in a value of Hello.Params
	MaxEndpoints  = 64   // endpoints in one message
	MaxRegions    = 256  // regions in one message
	MaxRegionName = 32   // bytes in Region.Name
	MaxErrorText  = 1024 // bytes in PeerError.Message

	// MaxNoteData is the maximum number of bytes in Note.Data: a 64 KiB body minus the
	// longest name.
	MaxNoteData = maxNoteBody - 1 - MaxName
)

// Role is a side of the TCP connection.
type Role uint8

// The two roles.
const (
	RoleClient Role = 1 // the side that dials
	RoleServer Role = 2 // the side that listens
)

// String returns "client" or "server", or the number of an unknown role.
func (r Role) String() string {
	return cmp.Or(map[Role]string{RoleClient: "client", RoleServer: "server"}[r], fmt.Sprintf("Role(%d)", uint8(r)))
}

// Hello is the first message of each side. It names the role, the program and the job.
// All texts are UTF-8 without control characters, because the peer prints them.
type Hello struct {
	Role    Role              // the sender's side of the connection
	Job     string            // name of the job to run; "" runs the peer's job. At most MaxName bytes
	Program string            // for people to read: program, version, device. At most MaxProgram bytes
	Params  map[string]string // the job's parameters, such as "size": "4096"
}

func (h Hello) check() error {
	if h.Role != RoleClient && h.Role != RoleServer {
		return errors.Errorf("role %d is neither client (1) nor server (2)", uint8(h.Role))
	}
	if err := checkText("job", h.Job, 0, MaxName); err != nil {
		return err
	}
	if err := checkText("program", h.Program, 0, MaxProgram); err != nil {
		return err
	}
	if len(h.Params) > MaxParams {
		return errors.Errorf("%d parameters, the limit is %d", len(h.Params), MaxParams)
	}
	for _, key := range h.keys() {
		if err := checkText("parameter key", key, 1, MaxParamKey); err != nil {
			return err
		}
		if err := checkText("parameter "+key, h.Params[key], 0, MaxParamValue); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the parameter keys in the order in which they are sent.
func (h Hello) keys() []string { return slices.Sorted(maps.Keys(h.Params)) }

// QPType is a queue pair's transport type, with the numbers of enum ibv_qp_type.
type QPType uint8

// The types that this exchange supports.
const (
	QPTypeRC QPType = 2 // reliable connection
	QPTypeUC QPType = 3 // unreliable connection
	QPTypeUD QPType = 4 // unreliable datagram
)

// String returns the C name, or the number of an unknown type.
func (t QPType) String() string {
	names := map[QPType]string{QPTypeRC: "IBV_QPT_RC", QPTypeUC: "IBV_QPT_UC", QPTypeUD: "IBV_QPT_UD"}
	return cmp.Or(names[t], fmt.Sprintf("QPType(%d)", uint8(t)))
}

// Endpoint describes one queue pair. The peer needs it to connect to the queue pair.
type Endpoint struct {
	Index  uint8    // number of the queue pair; the indexes of one message ascend
	QPType QPType   // must be equal on both sides
	QPN    uint32   // queue pair number, 24 bits
	PSN    uint32   // sequence number of the sender's first packet, 24 bits; the peer's rq_psn
	LID    uint16   // InfiniBand local identifier; 0 on RoCE
	GID    [16]byte // the port's address, raw, in network order
	MTU    int      // largest path MTU of the sender, in bytes: 256, 512, 1024, 2048 or 4096; a connection has the smaller of the two
	QKey   uint32   // UD only: the key that the peer's datagrams must carry

	// InitiatorDepth is the number of READs and atomics that the sender would like to
	// have in flight (max_rd_atomic). A connection has at most the peer's ResponderResources.
	InitiatorDepth uint8
	// ResponderResources is the number of the peer's READs and atomics that the sender
	// can serve at once (max_dest_rd_atomic).
	ResponderResources uint8
}

// max24 is the largest QPN and the largest PSN.
const max24 = 1<<24 - 1

func (e Endpoint) check() error {
	switch {
	case e.QPType != QPTypeRC && e.QPType != QPTypeUC && e.QPType != QPTypeUD:
		return errors.Errorf("QP type %d is not RC (2), UC (3) or UD (4)", uint8(e.QPType))
	case e.QPN > max24:
		return errors.Errorf("QPN 0x%x does not fit in 24 bits", e.QPN)
	case e.PSN > max24:
		return errors.Errorf("PSN 0x%x does not fit in 24 bits", e.PSN)
	case !slices.Contains([]int{256, 512, 1024, 2048, 4096}, e.MTU):
		return errors.Errorf("path MTU %d is not 256, 512, 1024, 2048 or 4096 bytes", e.MTU)
	}
	return nil
}

func checkEndpoints(list []Endpoint) error {
	if len(list) == 0 {
		return errors.New("the message has no endpoint; at least one is needed")
	}
	if len(list) > MaxEndpoints {
		return errors.Errorf("%d endpoints, the limit is %d", len(list), MaxEndpoints)
	}
	for i, e := range list {
		if err := e.check(); err != nil {
			return errors.WithMessagef(err, "endpoint %d", i)
		}
		if i > 0 && list[i-1].Index >= e.Index {
			return errors.Errorf("endpoint %d: index %d does not follow %d; the indexes must ascend", i, e.Index, list[i-1].Index)
		}
	}
	return nil
}

// checkPeerEndpoints returns an error unless the peer's list matches this side's list.
func checkPeerEndpoints(local, peer []Endpoint) error {
	if len(local) != len(peer) {
		return errors.Errorf("this end has %d queue pairs and the peer %d", len(local), len(peer))
	}
	for i := range local {
		if local[i].Index != peer[i].Index {
			return errors.Errorf("endpoint %d has index %d at this end and %d at the peer", i, local[i].Index, peer[i].Index)
		}
		if local[i].QPType != peer[i].QPType {
			return errors.Errorf("queue pair %d is %v at this end and %v at the peer", local[i].Index, local[i].QPType, peer[i].QPType)
		}
	}
	return nil
}

// Region describes memory that the peer may read or write by RDMA.
type Region struct {
	Name   string // the job's name for it; 1 to MaxRegionName bytes, unique in a message
	Addr   uint64 // address of the first byte for the owner's device
	RKey   uint32 // remote key
	Length uint64 // bytes
}

func checkRegions(list []Region) error {
	if len(list) > MaxRegions {
		return errors.Errorf("%d regions, the limit is %d", len(list), MaxRegions)
	}
	seen := make(map[string]bool, len(list))
	for i, r := range list {
		if err := checkText("name", r.Name, 1, MaxRegionName); err != nil {
			return errors.WithMessagef(err, "region %d", i)
		}
		if seen[r.Name] {
			return errors.Errorf("region %d: the name %q is used twice", i, r.Name)
		}
		seen[r.Name] = true
		if r.Length > 0 && r.Addr+(r.Length-1) < r.Addr {
			return errors.Errorf("region %q: 0x%x bytes at 0x%x run past the end of the address space", r.Name, r.Length, r.Addr)
		}
	}
	return nil
}

// Note is named data of a job, such as results or a part of a trace. This package does
// not interpret the data.
type Note struct {
	Name string // 1 to MaxName bytes
	Data []byte // at most MaxNoteData bytes
}

func (n Note) check() error {
	if err := checkText("name", n.Name, 1, MaxName); err != nil {
		return err
	}
	if len(n.Data) > MaxNoteData {
		return errors.Errorf("note %q has %d bytes, the limit is %d; send it in parts", n.Name, len(n.Data), MaxNoteData)
	}
	return nil
}
