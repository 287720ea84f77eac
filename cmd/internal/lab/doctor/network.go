// The checks of the network: the port, the GIDs, the MTU, the firewall.

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// settle waits until done reports true: a device follows its interface with a delay.
func (h *Host) settle(ctx context.Context, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.wait, h.limit/10))
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return done()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

func port(ctx context.Context, h *Host, d *device) Finding {
	link, _ := h.iface(d.netdev)
	active := func() bool { return d.probe.Port.State == verbs.PortActive }
	if d.netdev != "" && link.Up && link.Carrier {
		h.settle(ctx, func() bool {
			if !active() {
				h.examine(d)
			}
			return active()
		})
	}
	state := d.probe.Port.State
	switch {
	case active():
		return ok("%s port 1 is %v", d.name, state)
	case d.netdev == "":
		return fail(h.asRoot("systemctl start opensm")+"  # on one host of the subnet; check the cable first",
			"%s port 1 is %v: no subnet manager has set it up, or it has no cable", d.name, state)
	case !link.Up:
		return fail(h.asRoot("ip link set "+d.netdev+" up"), "%s port 1 is %v, because %s is down", d.name, state, d.netdev)
	case !link.Carrier:
		return fail("ip link show "+d.netdev+"  # check the cable, and the other end of the link",
			"%s port 1 is %v, because %s has no carrier", d.name, state, d.netdev)
	}
	return fail("rdma link show "+d.name, "%s port 1 is %v, but %s is up", d.name, state, d.netdev)
}

// wanted reports whether a GID is of RoCE v2 and of an address that HOST's family needs.
func (h *Host) wanted(g gid) bool {
	switch {
	case g.kind != verbs.GIDTypeRoCEv2 || g.addr.IsLinkLocalUnicast():
		return false
	case h.peerFamily() != 0:
		return g.addr.Is4() == (h.peerFamily() == 4)
	}
	return true
}

// peerFamily is 4 or 6 if HOST is an address, else 0.
func (h *Host) peerFamily() int {
	addr, err := netip.ParseAddr(h.Peer)
	switch {
	case err != nil || addr.IsLoopback():
		return 0
	case addr.Unmap().Is4():
		return 4
	}
	return 6
}

func gids(ctx context.Context, h *Host, d *device) Finding {
	if d.probe.Port.LinkLayer == verbs.LinkInfiniBand {
		if len(d.gids) > 0 {
			d.gid = d.gids[0].index
		}
		return ok("%s is InfiniBand: GID 0 is its own", d.name)
	}
	best := func() int { // IPv4 first
		if i := slices.IndexFunc(d.gids, func(g gid) bool { return h.wanted(g) && g.addr.Is4() }); i >= 0 {
			return i
		}
		return slices.IndexFunc(d.gids, h.wanted)
	}
	link, _ := h.iface(d.netdev)
	if slices.ContainsFunc(link.Addrs, netip.Addr.Is4) {
		h.settle(ctx, func() bool {
			if i := best(); i >= 0 && (d.gids[i].addr.Is4() || h.peerFamily() == 6) {
				return true
			}
			h.examine(d)
			return false
		})
	}
	i := best()
	if i < 0 {
		missing := "an address"
		if family := h.peerFamily(); family != 0 {
			missing = fmt.Sprintf("an IPv%d address", family)
		}
		if slices.ContainsFunc(link.Addrs, func(a netip.Addr) bool {
			return !a.IsLinkLocalUnicast() && (h.peerFamily() == 0 || a.Is4() == (h.peerFamily() == 4))
		}) {
			return fail("rdma link show "+d.name, "%s has no RoCE v2 GID, but %s has an address", d.name, d.netdev)
		}
		return fail(h.addAddress(d), "%s has no RoCE v2 GID that a peer can use: %s needs %s", d.name, d.netdev, missing)
	}
	g := d.gids[i]
	d.gid, d.addr = g.index, g.addr
	if !g.addr.Is4() && h.peerFamily() == 0 {
		return warn(h.addAddress(d), "%s has GID %d (RoCE v2, %v), but no GID of an IPv4 address: peers with IPv4 cannot use it", d.name, g.index, g.addr)
	}
	return ok("%s has GID %d (RoCE v2, %v on %s)", d.name, g.index, g.addr, g.netdev)
}

// addAddress is the command that gives an interface an address. The network's own numbers
// are unknown, so it takes private ones that no interface has.
func (h *Host) addAddress(d *device) string {
	note := "  # or an unused address of your network"
	if h.peerFamily() == 6 {
		return h.asRoot("ip address add fd00:77::1/64 dev "+d.netdev) + note
	}
	if addr, err := netip.ParseAddr(h.Peer); err == nil && addr.Is4() {
		if _, err := h.Source(addr); err != nil { // perhaps HOST is in the network of the missing address
			own := addr.As4()
			own[3] = 1
			if addr.As4() == own {
				own[3] = 2
			}
			return h.asRoot(fmt.Sprintf("ip address add %v/24 dev %s", netip.AddrFrom4(own), d.netdev)) + note
		}
	}
	all, _ := h.Interfaces()
	for third := byte(0); ; third++ {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, third, 1}), 24)
		taken := slices.ContainsFunc(all, func(f Interface) bool { return slices.ContainsFunc(f.Addrs, subnet.Masked().Contains) })
		if !taken || third == 255 {
			return h.asRoot(fmt.Sprintf("ip address add %v dev %s", subnet, d.netdev)) + note
		}
	}
}

// headers are the bytes of a packet beside its payload, within the interface's MTU.
const headers = 60

func mtu(_ context.Context, h *Host, d *device) Finding {
	path := d.probe.Port.ActiveMTU.Bytes()
	link, is := h.iface(d.netdev)
	switch {
	case d.netdev == "" || !is:
		return ok("%s has a path MTU of %d", d.name, path)
	case path+headers > link.MTU:
		return fail(h.asRoot(fmt.Sprintf("ip link set %s mtu %d", d.netdev, path+104)),
			"%s has a path MTU of %d, which with its headers exceeds the %d of %s: large messages are lost", d.name, path, link.MTU, d.netdev)
	case path < 1024:
		return warn(h.asRoot(fmt.Sprintf("ip link set %s mtu 1500", d.netdev)), "%s has a path MTU of %d, because %s has %d: large messages are slow", d.name, path, d.netdev, link.MTU)
	}
	return ok("%s has a path MTU of %d, which fits into the %d of %s", d.name, path, link.MTU, d.netdev)
}

// listRules is the command that lists the rules of the firewall.
func (h *Host) listRules() string {
	return h.asRoot("nft list ruleset") + "  # find the rule that drops UDP port 4791; iptables-save lists older rules"
}

// firewall sends datagrams to an address of this machine. The kernel delivers them through
// lo, so a rule for other interfaces shows in the check of the job with HOST.
func firewall(ctx context.Context, h *Host, d *device) Finding {
	if !d.software() {
		return ok("%s does not send through this machine's firewall", d.name)
	}
	if !d.addr.Is4() {
		return skip("UDP port 4791 is tried with IPv4 only")
	}
	ctx, cancel := context.WithTimeout(ctx, h.limit/10)
	defer cancel()
	blocked, err := h.SendUDP(ctx, d.addr)
	switch {
	case err != nil:
		return warn(h.listRules(), "UDP port 4791 could not be tried: %v", err)
	case blocked == Leaving:
		return fail(h.listRules(), "this machine's firewall does not let UDP port 4791 out: requests end with RETRY_EXC_ERR")
	case blocked == Arriving:
		return fail(h.listRules(), "this machine's firewall does not let UDP port 4791 in: requests end with RETRY_EXC_ERR")
	}
	return ok("UDP port 4791 of %v leaves and arrives", d.addr)
}
