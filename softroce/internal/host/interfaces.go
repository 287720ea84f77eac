// Package host reads the network interfaces of this host, their addresses and MTUs, and watches for changes.
package host

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
)

// ErrNotFound means that the host has no such interface. All other errors may pass.
var ErrNotFound = errors.New("no such network interface")

// Addresses returns the unicast addresses of an interface, in the order of its GID table:
// IPv6 link-local addresses first, with the interface as zone, then the others in the
// system's order. IPv4 addresses have 4 bytes.
func Addresses(name string) ([]netip.Addr, error) {
	_, all, err := Interface(name)
	if err != nil {
		return nil, err
	}
	local := make([]netip.Addr, 0, len(all))
	var others []netip.Addr
	for _, a := range all {
		if a.Is6() && a.IsLinkLocalUnicast() {
			local = append(local, a)
		} else {
			others = append(others, a)
		}
	}
	return append(local, others...), nil
}

// Interface returns an interface and its unicast addresses, in the system's order. The zone of link-local addresses is the
// interface.
func Interface(name string) (*net.Interface, []netip.Addr, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, nil, errors.WithMessage(err, "softroce/host: interfaces")
	}
	i := slices.IndexFunc(list, func(ifi net.Interface) bool { return ifi.Name == name })
	if i < 0 {
		return nil, nil, errors.WithMessagef(ErrNotFound, "softroce/host: interface %s", name)
	}
	all, err := addressesOf(&list[i])
	return &list[i], all, err
}

// AllAddresses returns the unicast addresses of all interfaces, without zones. IPv4 addresses have 4 bytes.
func AllAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, errors.WithMessage(err, "softroce/host: addresses")
	}
	return parsed(list), nil
}

func addressesOf(ifi *net.Interface) ([]netip.Addr, error) {
	list, err := ifi.Addrs()
	if err != nil {
		return nil, errors.WithMessagef(err, "softroce/host: addresses of %s", ifi.Name)
	}
	all := parsed(list)
	for i, addr := range all {
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			all[i] = addr.WithZone(ifi.Name)
		}
	}
	return all, nil
}

// parsed returns the addresses of package net as those of netip.
func parsed(list []net.Addr) (all []netip.Addr) {
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, addr.Unmap())
			}
		}
	}
	return all
}

// InterfaceOf returns the interface that has addr. For a loopback address it returns the
// loopback interface, which accepts loopback addresses that it does not list.
func InterfaceOf(addr netip.Addr) (*net.Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, errors.WithMessage(err, "softroce/host: interfaces")
	}
	for i := range list {
		if addr.IsLoopback() && list[i].Flags&net.FlagLoopback != 0 {
			return &list[i], nil
		}
		all, err := addressesOf(&list[i])
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			if a.WithZone("") == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == list[i].Name) {
				return &list[i], nil
			}
		}
	}
	return nil, errors.WithMessagef(ErrNotFound, "softroce/host: interface with %v", addr)
}

// RXEDevices returns the names of the visible devices of rdma_rxe. Of the kernel's drivers, only
// rdma_rxe has devices with a "parent" file.
func RXEDevices() []string {
	parents, _ := filepath.Glob("/sys/class/infiniband/*/parent")
	names := make([]string, 0, len(parents))
	for _, p := range parents {
		names = append(names, filepath.Base(filepath.Dir(p)))
	}
	return names
}
