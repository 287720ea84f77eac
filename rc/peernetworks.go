// The check of the peer's GIDs. A peer sends its GID over TCP, and may send the GID of another host.
// That host would then get packets for which it never asked.

package rc

import (
	"net"
	"net/netip"
	"slices"

	"github.com/rawverbs/rawverbs/verbs"
)

// checkPeerGIDs refuses a GID of the peer that Config.PeerNetworks does not allow. Devices outside this process often have
// networks of their own, so a GID there says nothing about the TCP address.
func (c *Conn) checkPeerGIDs() error {
	networks := c.cfg.PeerNetworks
	if networks == nil && (!c.accepted || !c.dev.Info().InProcess) {
		return nil
	}
	local, remote := ipOf(c.tcp.LocalAddr()), ipOf(c.tcp.RemoteAddr())
	for _, p := range c.pairs {
		gid := verbs.GID(p.peer.GID)
		if !gid.IsZero() && !mayName(gid.Addr(), local, remote, networks) {
			return &PeerAddressError{GID: gid, TCP: remote}
		}
	}
	return nil
}

// addressed is a connection that Config.Wrap made and that has no IP addresses of its own. It has those of
// the TCP connection below it, because the peer's GID is compared with them.
type addressed struct {
	net.Conn
	below net.Conn
}

func (a addressed) LocalAddr() net.Addr  { return a.below.LocalAddr() }
func (a addressed) RemoteAddr() net.Addr { return a.below.RemoteAddr() }

// mayName reports whether a peer whose TCP connection goes from remote to local may have the
// address addr.
func mayName(addr, local, remote netip.Addr, networks []netip.Prefix) bool {
	if addr.IsMulticast() {
		return false
	}
	if addr == remote.WithZone("") || slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) }) {
		return true
	}
	return (remote.IsLoopback() || remote == local) && isOfThisHost(addr)
}

// isOfThisHost reports whether this host has an address. It has all of 127.0.0.0/8.
func isOfThisHost(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, ok := a.(*net.IPNet)
		return ok && prefix.IP.Equal(addr.AsSlice())
	})
}
