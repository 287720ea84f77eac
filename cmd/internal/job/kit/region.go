// The region that the server shares with the client, and the lists of memory that
// requests name.

package kit

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// RegionName is the name under which a server shares its region.
const RegionName = "buffer"

// PeerRegion returns the region that the server shares. The region must have at least n bytes.
func PeerRegion(c *rc.Conn, n int) (oob.Region, error) {
	r, ok := c.PeerRegion(RegionName)
	if !ok || r.Length < uint64(n) {
		return r, errors.Errorf("the server shares %d bytes as %q, but the job needs %d; try: a server of this program's version", r.Length, RegionName, n)
	}
	return r, nil
}

// Gather returns a scatter/gather list of a region's first n bytes. If n is 0 the list is
// empty, because an element of length 0 means 2 GiB on some devices.
func Gather(mr *verbs.MR, n int) []verbs.SGE {
	if n == 0 {
		return nil
	}
	return []verbs.SGE{mr.SGE(0, n)}
}
