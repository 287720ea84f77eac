// This file is local addresses: an error that says why one cannot be had, and
// the choice of a loopback address.

package link

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// AddrError says that an address cannot be bound.
type AddrError struct {
	Addr netip.Addr // its port is packet.Port
	Err  error      // errors.Is finds EADDRINUSE, EADDRNOTAVAIL, …
	Hint string     // what to try
}

func (e *AddrError) Error() string {
	text := fmt.Sprintf("softroce/link: UDP port %d of %v: %v", packet.Port, e.Addr, e.Err)
	if e.Hint != "" {
		text += "; try: " + e.Hint
	}
	return text
}

// Unwrap returns Err.
func (e *AddrError) Unwrap() error { return e.Err }

// addrError explains what binding local failed with.
func addrError(local netip.AddrPort, err error) error {
	e := &AddrError{Addr: local.Addr(), Err: err}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Err = errno
	}
	switch errno {
	case syscall.EADDRINUSE:
		e.Hint = "another address: one process has a port of an address to itself, and some other has this one"
		if rxe := rxeDevices(); len(rxe) > 0 {
			e.Hint = fmt.Sprintf("the kernel's own device, %s: rdma_rxe has port %d of every address in its network namespace; "+
				"or delete it (rdma link delete %s), or run in another namespace (ip netns exec)",
				strings.Join(rxe, ", "), packet.Port, rxe[0])
		} else if _, err := os.Stat("/sys/module/rdma_rxe"); err == nil {
			e.Hint += fmt.Sprintf("; it may be the kernel's rdma_rxe, which keeps port %d of every address when its last device "+
				"is gone (modprobe -r rdma_rxe), or run in another namespace (ip netns exec)", packet.Port)
		}
	case syscall.EADDRNOTAVAIL:
		e.Hint = "an address that this host has: ip address show, or ifconfig"
	case syscall.EAFNOSUPPORT:
		e.Hint = "an IPv4 address: this system has no IPv6"
	}
	return e
}

// sendHint is what to try when a packet cannot be sent, with "; try: " in front.
func sendHint(err error) string {
	hint := ""
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		hint = "a smaller path MTU at both ends: the interface's MTU is less than the packet"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = "an address of the network of the interface in use: there is no route to this one from it"
	case errors.Is(err, syscall.EINVAL):
		hint = "an address that can be reached from this one: a loopback address reaches only loopback"
	case errors.Is(err, syscall.EPERM):
		hint = fmt.Sprintf("opening UDP port %d in the firewall", packet.Port)
	case errors.Is(err, packet.ErrFlow):
		hint = "an address of the same family as this end's"
	}
	if hint != "" {
		hint = "; try: " + hint
	}
	return hint
}

// rxeDevices names the devices of rdma_rxe that can be seen. Of the kernel's
// drivers, it is the one whose devices have a "parent".
func rxeDevices() []string {
	parents, _ := filepath.Glob("/sys/class/infiniband/*/parent")
	names := make([]string, 0, len(parents))
	for _, p := range parents {
		names = append(names, filepath.Base(filepath.Dir(p)))
	}
	return names
}

// loopbackTries is how many addresses OpenLoopback tries.
const loopbackTries = 16

// loopbackCalls is how often OpenLoopback was called: no two calls of a process
// begin with the same address.
var loopbackCalls atomic.Uint64

// OpenLoopback opens an address of 127.0.0.0/8 that no other process has, so
// that several processes of one host reach each other with no set-up. Which it
// is follows from the process's number and from how often it was called, as long
// as nobody else took it. Where the system has 127.0.0.1 alone, as macOS does, it is that, and Status says so.
func OpenLoopback(cfg Config) (*Socket, error) {
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), loopbackCalls.Add(1)))
	var err error
	for range loopbackTries {
		// 127.1.1.1 to 127.254.254.254
		part := func() byte { return byte(1 + r.IntN(254)) }
		var s *Socket
		s, err = Open(netip.AddrFrom4([4]byte{127, part(), part(), part()}), cfg)
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			only := netip.AddrFrom4([4]byte{127, 0, 0, 1})
			if s, err = Open(only, cfg); err != nil {
				return nil, err
			}
			s.note("this system has no loopback address but %v, so only one process can have a device; "+
				"for another: ifconfig lo0 alias 127.0.0.2", only)
			return s, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, err
		}
	}
	return nil, err
}
