// Networks: the value of --peer-networks.

package run

import (
	"net/netip"
	"strings"

	"github.com/pkg/errors"
)

// Networks are the networks from which a client's GID may be. The address of its TCP connection is
// always allowed. nil is the default of [rc.Config.PeerNetworks].
type Networks []netip.Prefix

const (
	anyNetwork = "any"
	noNetwork  = "none"
)

// String returns the value as Set takes it.
func (n *Networks) String() string {
	if *n == nil {
		return ""
	}
	if len(*n) == 0 {
		return noNetwork
	}
	texts := make([]string, len(*n))
	for i, p := range *n {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

// Set parses networks with commas between them, or "any" or "none".
func (n *Networks) Set(text string) error {
	set := Networks{}
	switch text {
	case noNetwork:
	case anyNetwork:
		set = Networks{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	default:
		for word := range strings.SplitSeq(text, ",") {
			prefix, err := netip.ParsePrefix(strings.TrimSpace(word))
			if err != nil {
				return errors.Errorf("%q is not a network; try: one such as 10.1.0.0/16, or %s, or %s", word, anyNetwork, noNetwork)
			}
			set = append(set, prefix.Masked())
		}
	}
	*n = set
	return nil
}

// Type returns the name of the value in --help.
func (*Networks) Type() string { return "networks" }
