// The provider: device names, and how a device is opened.

package softroce

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// The device names.
const (
	loopbackName = "soft0"
	prefix       = "soft:" // followed by an interface or an address
)

func init() { verbs.Register(provider{}) }

type provider struct{}

func (provider) Name() string { return "softroce" }

// Devices lists only soft0. The other devices exist while they are open.
func (provider) Devices() ([]verbs.DeviceInfo, error) {
	return []verbs.DeviceInfo{info(loopbackName)}, nil
}

func info(name string) verbs.DeviceInfo {
	return verbs.DeviceInfo{Name: name, Provider: provider{}.Name(), NodeType: verbs.NodeCA, Transport: verbs.TransportIB, Index: -1, InProcess: true}
}

func (provider) Open(name string) (verbs.ProviderDevice, error) {
	where, ours := strings.CutPrefix(name, prefix)
	if name != loopbackName && !ours {
		return nil, syscall.ENODEV
	}
	ports, err := openPorts(name, where)
	if err != nil {
		return nil, err
	}
	return newDevice(name, ports), nil
}

// Run returns how many packets share a datagram.
func (d *device) Run(mtu int) (packets int) {
	const headers = 12 + 4 // BTH and ICRC
	return min(link.MaxBurst/(headers+mtu), link.MaxBurstPackets)
}

// openPorts opens a link for each address of a device. As with rdma_rxe, GID index 0 is the
// link-local address or empty; the other addresses follow from 1 on, IPv4 first.
func openPorts(name, where string) ([]*port, error) {
	if name == loopbackName {
		l, err := link.OpenLoopback(link.Config{})
		if err != nil {
			return nil, err
		}
		return []*port{{link: l, gidIndex: 1}}, nil
	}
	addresses, err := addressesOf(where)
	if err != nil {
		return nil, err
	}
	var ports []*port
	next := 1
	for _, a := range addresses {
		l, err := link.Open(a, link.Config{})
		if a.IsLinkLocalUnicast() && errors.Is(err, syscall.EADDRNOTAVAIL) && len(addresses) > 1 {
			continue // duplicate address detection has not finished yet
		}
		if err != nil {
			closePorts(ports)
			return nil, err
		}
		if a.IsLinkLocalUnicast() && (len(ports) == 0 || ports[0].gidIndex > 0) {
			ports = slices.Insert(ports, 0, &port{link: l})
			continue
		}
		ports = append(ports, &port{link: l, gidIndex: next})
		next++
	}
	return ports, nil
}

// addressesOf parses the part of a device name after "soft:".
func addressesOf(where string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(where); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	addresses, err := host.Addresses(where)
	if err != nil {
		return nil, errors.WithMessagef(syscall.ENODEV, "soft:%s: %v; the interfaces of this host: %s", where, err, interfaces())
	}
	if len(addresses) == 0 {
		return nil, errors.WithMessagef(syscall.EADDRNOTAVAIL, "interface %s has no address; try: ip addr add ADDRESS/PREFIX dev %s", where, where)
	}
	return addresses, nil
}

func interfaces() string {
	list, err := net.Interfaces()
	if err != nil {
		return "(unknown: " + err.Error() + ")"
	}
	var names []string
	for _, i := range list {
		names = append(names, i.Name)
	}
	return strings.Join(names, ", ")
}
