// GIDs as text.

package qpstate

import (
	"encoding/hex"
	"net/netip"

	"github.com/pkg/errors"
)

// ParseGID reads a GID in the forms that RDMA tools print: as an IPv6 address, long
// ("fe80:0000:0000:0000:0000:0000:0000:0001") or short ("fe80::1"), IPv4-mapped
// ("::ffff:10.0.0.1") or plain IPv4 ("10.0.0.1"), or as 32 hexadecimal digits without colons.
// A zone is an error, because a GID has none.
func ParseGID(text string) (GID, error) {
	var g GID
	if len(text) == 2*len(g) {
		if _, err := hex.Decode(g[:], []byte(text)); err == nil {
			return g, nil
		}
	}
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() != "" {
		return GID{}, errors.Errorf("%q is not a GID; try: an IP address without a zone, such as fe80::1 or 10.0.0.1, or 32 hexadecimal digits", text)
	}
	return GIDFrom(ip), nil
}

// MarshalText returns what String returns.
func (g GID) MarshalText() ([]byte, error) { return netip.AddrFrom16(g).AppendTo(nil), nil }

// UnmarshalText reads what [ParseGID] reads. After an error the GID is as before.
func (g *GID) UnmarshalText(text []byte) error {
	parsed, err := ParseGID(string(text))
	if err == nil {
		*g = parsed
	}
	return err
}
