// Choosing a GID: the address that a queue pair sends from. Indexes in the GID table change with
// addresses and links, so a program should choose by address and type when it starts.

package verbs

import (
	"fmt"
	"net/netip"
	"strings"
)

// GIDSelection says how [ChooseGID] selects a GID. The zero value selects the best slot of port 1.
type GIDSelection struct {
	Port  uint8      // 0 means 1
	Index *int       // the slot, 0 to 255; nil: choose by type and address family
	Local netip.Addr // this side's address on the route to the peer; the zero Addr if unknown
	Peer  netip.Addr // the peer's address; the zero Addr if unknown
}

// ChooseGID chooses a slot of a GID table and returns the reason as text for people. Without an
// Index it considers the port's RoCE v2 slots (on InfiniBand: the port's GID) and prefers, in this
// order: the slot whose address is Local; a slot of the peer's family; an IPv4-mapped one; a global
// one. It takes a link-local slot only for a link-local peer. With an Index it takes that slot if
// the slot is filled. It never takes a slot above 255, because a path cannot name it. The error
// is a *[GIDError].
func ChooseGID(table []GIDEntry, selection GIDSelection) (entry GIDEntry, why string, err error) {
	port := max(selection.Port, 1)
	if selection.Index != nil {
		for _, e := range table {
			if e.Port == port && e.Index == *selection.Index && e.Index <= maxGIDIndex {
				return e, "asked for by index", nil
			}
		}
		return GIDEntry{}, "", &GIDError{Port: port, Selection: selection, Table: table}
	}
	best := 0
	for _, e := range table {
		if e.Port != port || e.Type == GIDTypeRoCEv1 || e.Index > maxGIDIndex {
			continue
		}
		if points, reason := gidPoints(e, selection); points > best {
			best, entry, why = points, e, reason
		}
	}
	if best == 0 {
		return GIDEntry{}, "", &GIDError{Port: port, Selection: selection, Table: table}
	}
	return entry, why, nil
}

// maxGIDIndex is the last slot that a path can name: struct ibv_global_route has eight bits for
// the index. The table may be longer.
const maxGIDIndex = 255

// gidPoints rates a slot; 0 means unusable. The first slot with the most points wins.
func gidPoints(e GIDEntry, selection GIDSelection) (points int, why string) {
	if e.Type == GIDTypeIB {
		return 1, "the port's InfiniBand GID"
	}
	family := gidFamily(e.GID)
	peer := addrFamily(selection.Peer)
	switch {
	case selection.Local.IsValid() && !selection.Local.IsLoopback() && e.GID.Addr() == selection.Local.Unmap().WithZone(""):
		return 5, "RoCE v2, and the address this side reaches the peer from"
	case family == peer:
		return 4, "RoCE v2 of the peer's family, " + string(family)
	case family == familyLinkLocal:
		return 0, ""
	case family == familyIPv4:
		return 3, "RoCE v2, IPv4-mapped"
	default:
		return 2, "RoCE v2, global IPv6"
	}
}

// gidFamilyName is the address family of a GID. Both ends of a path need the same family.
type gidFamilyName string

const (
	familyNone      gidFamilyName = "no address"
	familyIPv4      gidFamilyName = "IPv4-mapped"
	familyLinkLocal gidFamilyName = "link-local IPv6"
	familyGlobal    gidFamilyName = "global IPv6"
)

func gidFamily(g GID) gidFamilyName {
	if g.IsZero() {
		return familyNone
	}
	return addrFamily(g.Addr())
}

func addrFamily(a netip.Addr) gidFamilyName {
	switch a = a.Unmap(); {
	case !a.IsValid():
		return familyNone
	case a.Is4():
		return familyIPv4
	case a.IsLinkLocalUnicast():
		return familyLinkLocal
	}
	return familyGlobal
}

// GIDError says that no slot of the table fits the selection.
type GIDError struct {
	Port      uint8        // the port whose slots were considered
	Selection GIDSelection // the requested selection
	Table     []GIDEntry   // the whole table, including slots of other ports
}

// Error names the selection, the filled slots and a remedy.
func (e *GIDError) Error() string {
	has := gidList(e.Table, e.Port)
	if e.Selection.Index != nil {
		return fmt.Sprintf("GID index %d of port %d is not a filled slot; the table has %s; try: one of those, or leave the index out",
			*e.Selection.Index, e.Port, has)
	}
	return fmt.Sprintf("port %d has no RoCE v2 GID to reach a peer with; the table has %s; try: give the port's network interface an address (ip addr add) and setting it up (ip link set up)",
		e.Port, has)
}

// gidList lists a port's slots: "0: fe80::1 RoCE v2 on eth0, 1: …".
func gidList(table []GIDEntry, port uint8) string {
	var parts []string
	for _, e := range table {
		if e.Port == port {
			parts = append(parts, e.String())
		}
	}
	if len(parts) == 0 {
		return "no filled slot"
	}
	return strings.Join(parts, ", ")
}
