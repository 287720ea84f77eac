// A cache of flows. A flow has the part of the ICRC that depends on the addresses, so
// this part is not computed for each packet.

package link

import (
	"encoding/binary"
	"net/netip"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// flowCache holds recently used flows, indexed by a hash of the remote address.
type flowCache [64]peer

// peer is one direction between the local address and a remote one.
type peer struct {
	local, remote netip.AddrPort
	flow          packet.Flow
}

// peer returns the cached flow from src to dst. src and dst are local and remote in
// either order. The result is valid until the next call.
func (c *flowCache) peer(local, remote, src, dst netip.AddrPort) (*peer, error) {
	a := remote.Addr().As16()
	h := binary.LittleEndian.Uint64(a[:8]) ^ binary.LittleEndian.Uint64(a[8:]) ^ uint64(remote.Port())
	p := &c[h*0x9e3779b97f4a7c15>>58]
	if p.remote == remote && p.local == local {
		return p, nil
	}
	f, err := packet.NewFlow(src, dst)
	if err != nil {
		return nil, err
	}
	*p = peer{local: local, remote: remote, flow: f}
	return p, nil
}
