// The GIDs of a device, and the one that reaches a peer.

package lab

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/verbs"
)

// GIDList is the report of a device's GIDs.
type GIDList struct {
	Device string `json:"device"`
	Peer   string `json:"peer,omitempty"`
	GIDs   []GID  `json:"gids"`
	Ports  int    `json:"ports"`
}

// GID is a filled slot of a port's table.
type GID struct {
	Port    uint8  `json:"port"`
	Index   int    `json:"index"`
	Type    string `json:"type"`
	Scope   string `json:"scope"`
	Netdev  string `json:"netdev"`
	Address string `json:"address"`
	Chosen  bool   `json:"chosen"`
	Why     string `json:"why,omitempty"` // why it is chosen, or why it never is
}

// GIDs lists the GIDs of a device, "" for the first one. It chooses for each port the GID
// that reaches the peer, "" for any peer. If no port has one for the peer, GIDs returns the
// list and an error.
func GIDs(device, peer string) (list *GIDList, err error) {
	var to netip.Addr
	if peer != "" {
		if to, err = hostAddr(peer); err != nil {
			return nil, err
		}
	} else if _, err := netip.ParseAddr(device); err == nil {
		return nil, usage.Errorf("%s is an address, and the device comes first; try: rdma_lab gids DEVICE %s", device, device)
	}
	dev, err := verbs.Open(device)
	if err != nil {
		return nil, err
	}
	defer kit.CloseAll(&err, dev)
	attr, err := dev.Query()
	if err != nil {
		return nil, err
	}
	table, err := dev.QueryGIDTable()
	if err != nil {
		return nil, err
	}
	list = &GIDList{Device: dev.Name(), Peer: peer, GIDs: []GID{}, Ports: attr.PhysPortCnt}
	from := towards(to)
	elsewhere := to.IsValid() && !to.IsLoopback() && from.WithZone("") != to.WithZone("")
	var fit []verbs.GIDEntry
	for _, e := range table {
		why := unfit(e, to)
		if elsewhere && e.GID.Addr().IsLoopback() {
			why = "loopback, which reaches this machine only"
		} else {
			fit = append(fit, e)
		}
		list.GIDs = append(list.GIDs, GID{
			Port: e.Port, Index: e.Index, Type: gidType(e.Type), Scope: scope(e.GID.Addr()), Netdev: e.Netdev, Address: e.GID.String(), Why: why,
		})
	}
	var none error
	found := false
	for port := 1; port <= attr.PhysPortCnt; port++ {
		chosen, why, err := verbs.ChooseGID(fit, verbs.GIDSelection{Port: uint8(port), Local: from, Peer: to})
		if err != nil {
			none = err
			continue
		}
		found = true
		for i := range list.GIDs {
			if g := &list.GIDs[i]; g.Port == chosen.Port && g.Index == chosen.Index {
				g.Chosen, g.Why = true, why
			}
		}
	}
	switch {
	case found || peer == "":
		return list, nil
	case len(fit) < len(table):
		return list, errors.Errorf("no GID of %s reaches %s: a loopback GID reaches this machine only; try: a device on the network interface that leads there; in software: soft:IFACE", list.Device, peer)
	}
	return list, none
}

// hostAddr parses the address of one host.
func hostAddr(peer string) (netip.Addr, error) {
	to, err := netip.ParseAddr(peer)
	if err != nil {
		return to, usage.Errorf("the peer %q is not an IP address; try: one such as 10.0.0.2 or fe80::2", peer)
	}
	to = to.Unmap()
	if to.IsUnspecified() || to.IsMulticast() || to == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return to, usage.Errorf("the peer %s is not the address of one host; try: one such as 10.0.0.2 or fe80::2", peer)
	}
	if zone := to.Zone(); zone != "" && !hasInterface(zone) {
		return to, usage.Errorf("this machine has no network interface %q; try: one that ip link lists", zone)
	}
	return to, nil
}

// hasInterface reports whether zone is the name or the index of an interface.
func hasInterface(zone string) bool {
	if _, err := net.InterfaceByName(zone); err == nil {
		return true
	}
	index, err := strconv.Atoi(zone)
	if err == nil {
		_, err = net.InterfaceByIndex(index)
	}
	return err == nil
}

// towards returns the address from which this host reaches an address, or the zero Addr. It
// sends nothing: connecting a UDP socket only asks for the route.
func towards(peer netip.Addr) netip.Addr {
	if !peer.IsValid() {
		return netip.Addr{}
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, 4791)))
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}

func gidType(t verbs.GIDType) string {
	switch t {
	case verbs.GIDTypeIB:
		return "IB"
	case verbs.GIDTypeRoCEv1:
		return "RoCE v1"
	case verbs.GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return t.String()
}

// scope says how far an address reaches.
func scope(a netip.Addr) string {
	family := "IPv6"
	if a.Unmap().Is4() {
		family, a = "IPv4", a.Unmap()
	}
	switch {
	case a.IsLoopback():
		return family + " loopback"
	case a.IsLinkLocalUnicast():
		return family + " link-local"
	}
	return family + " global"
}

// unfit says why a slot cannot be chosen for a peer, or "".
func unfit(e verbs.GIDEntry, peer netip.Addr) string {
	switch {
	case e.Type == verbs.GIDTypeIB:
	case e.Type == verbs.GIDTypeRoCEv1:
		return "RoCE v1, whose packets do not pass routers"
	case e.Index > 255:
		return "beyond 255, the last index that a path can name"
	case e.GID.Addr().IsLinkLocalUnicast() && !peer.IsLinkLocalUnicast():
		return "link-local, which reaches only link-local peers"
	}
	return ""
}

// Text has one row for each GID, the chosen one marked, and why it is chosen.
func (l *GIDList) Text() string {
	var p columns.Page
	peer := "a peer"
	if l.Peer != "" {
		peer = l.Peer
	}
	if len(l.GIDs) == 0 {
		p.Para("", l.Device+" has no GID; its network interface needs an address (ip addr add) and must be up (ip link set up).")
	} else {
		rows := [][]string{{"", "PORT", "INDEX", "TYPE", "SCOPE", "NETDEV", "ADDRESS"}}
		for _, g := range l.GIDs {
			mark := ""
			if g.Chosen {
				mark = ">"
			}
			rows = append(rows, []string{mark, fmt.Sprint(g.Port), fmt.Sprint(g.Index), g.Type, g.Scope, g.Netdev, g.Address})
		}
		p.Table(rows)
	}
	l.reasons(&p, peer)
	return p.String()
}

// reasons says why the chosen GIDs are chosen, and why others never are.
func (l *GIDList) reasons(p *columns.Page, peer string) {
	if len(l.GIDs) > 0 {
		p.Line("")
	}
	chosen := false
	for _, g := range l.GIDs {
		on := ""
		if l.Ports > 1 {
			on = fmt.Sprintf(" of port %d", g.Port)
		}
		switch {
		case g.Chosen:
			chosen = true
			p.Para(fmt.Sprintf("> index %d%s for %s: ", g.Index, on, peer), g.Why)
		case g.Why != "":
			p.Para(fmt.Sprintf("  not %d%s: ", g.Index, on), g.Why)
		}
	}
	if len(l.GIDs) > 0 && !chosen {
		p.Para("", "None of these reaches "+peer+".")
	}
}
