// Local addresses: the error of an address that cannot be bound, and the choice of a
// loopback address.

package link

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// AddrError reports that an address cannot be bound.
type AddrError struct {
	Addr netip.Addr // the address; the port is packet.Port
	Err  error      // the cause, such as EADDRINUSE or EADDRNOTAVAIL
	Hint string     // the remedy; may be empty
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

// cause returns the errno in the error of a system call, if there is one.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// addrError returns the AddrError for a bind of addr that failed with err.
func addrError(addr netip.Addr, err error) error {
	e := &AddrError{Addr: addr, Err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Hint = "another address: another process uses this address and port"
		if rxe := host.RXEDevices(); len(rxe) > 0 {
			e.Hint = fmt.Sprintf("the kernel's own device, %s: rdma_rxe uses port %d of every address in its network namespace; "+
				"or delete that device (rdma link delete %s), or run in another namespace (ip netns exec)",
				strings.Join(rxe, ", "), packet.Port, rxe[0])
		} else if _, err := os.Stat("/sys/module/rdma_rxe"); err == nil {
			e.Hint += fmt.Sprintf(", perhaps the kernel's rdma_rxe, which keeps port %d of every address even after its last "+
				"device is deleted; or modprobe -r rdma_rxe, or run in another namespace (ip netns exec)", packet.Port)
		}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Hint = "an address that this host has: ip address show, or ifconfig"
	case errors.Is(err, syscall.EAFNOSUPPORT):
		e.Hint = "an IPv4 address: this system has no IPv6"
	}
	return e
}

// sendHint returns the remedy for a packet that cannot be sent, with "; try: " in front.
func sendHint(err error) string {
	hint := ""
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		hint = "a smaller path MTU at both ends: the interface's MTU is less than the packet"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = "an address that the interface in use can reach: it has no route to this one"
	case errors.Is(err, syscall.EINVAL):
		hint = "an address that can be reached from this one: a loopback address reaches only loopback"
	case errors.Is(err, syscall.EPERM):
		hint = fmt.Sprintf("open UDP port %d in the firewall", packet.Port)
	case errors.Is(err, packet.ErrFlow):
		hint = "an address of the same family as the local address"
	}
	if hint != "" {
		hint = "; try: " + hint
	}
	return hint
}

// loopbackTries is the number of addresses that OpenLoopback tries.
const loopbackTries = 16

// loopbackCalls counts the calls of OpenLoopback, so that each call of a process begins
// with another address.
var loopbackCalls atomic.Uint64

// OpenLoopback opens a Socket on a free address of 127.0.0.0/8, so that several processes
// of one host reach each other without set-up. The address depends on the process ID and
// on the number of earlier calls; if it is taken, OpenLoopback tries others. On a system
// that has only 127.0.0.1, such as macOS, OpenLoopback opens 127.0.0.1 and adds a note to
// Status.
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
			s.note("this system has only the loopback address %v, so only one process can have a device; "+
				"to add an address: ifconfig lo0 alias 127.0.0.2", only)
			return s, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, err
		}
	}
	return nil, err
}
