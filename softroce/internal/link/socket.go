// Socket: the link over a real network, a UDP socket.

package link

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Config configures a Socket. The zero Config uses the defaults.
type Config struct {
	// Limit is the best mode to use; 0 means the best that the system supports.
	Limit Mode
	// ReceiveBuffer is the size of the socket's receive buffer in bytes; 0 means 4 MiB.
	// The system may grant less: see Status.
	ReceiveBuffer int
}

const defaultReceiveBuffer = 4 << 20

// Socket is a Link over UDP. It is bound to one address and not connected. It sets DF
// (don't fragment), because the kernel's IPv4 identifications are then predictable.
type Socket struct {
	outlet
	others atomic.Pointer[map[uint16]*outlet] // by source port; see outlet.go
	scope  uint32                             // index of the interface, for link-local addresses
	mtu    int

	sendMode, receiveMode atomic.Uint32                // Mode
	unsplit               atomic.Pointer[[]netip.Addr] // addresses to which the kernel refuses GSO
	tap                   tap
	counters              counters
	system                systemCalls
	overflowed            atomic.Uint64 // overflow() at Close
	interrupted           atomic.Bool   // Interrupt was called, and no Receive has returned since

	noting sync.Mutex
	status Status // without the modes; guarded by noting

	mu      sync.Mutex
	sources []uint16 // the ports of others
	without bool     // a flow label got no port of its own
	closed  bool
}

// Open returns a Socket bound to UDP port packet.Port of addr, an address of this host.
// It selects the modes that the system supports and tests the identifications of its
// packets. Status reports features that do not work and are not required. The error is an
// *AddrError if addr cannot be bound.
func Open(addr netip.Addr, cfg Config) (*Socket, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return nil, &AddrError{Addr: addr, Err: syscall.EADDRNOTAVAIL, Hint: "name one address of one interface"}
	}
	if addr.Is6() && addr.IsLinkLocalUnicast() && addr.Zone() == "" {
		return nil, &AddrError{Addr: addr, Err: syscall.EADDRNOTAVAIL,
			Hint: "a link-local address needs its interface: " + addr.String() + "%eth0"}
	}
	if cfg.Limit == 0 {
		cfg.Limit = Segmented
	}
	if cfg.ReceiveBuffer == 0 {
		cfg.ReceiveBuffer = defaultReceiveBuffer
	}
	s := newSocket(addr)
	var err error
	if s.conn, err = listen(s.local, s.predictable, true); err != nil {
		return nil, addrError(addr, err)
	}
	if err := s.setUp(cfg); err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
}

func newSocket(addr netip.Addr) *Socket {
	s := &Socket{outlet: outlet{local: netip.AddrPortFrom(addr, packet.Port)}, system: realCalls}
	s.others.Store(&map[uint16]*outlet{})
	return s
}

// predictable is the option of sockets that send: they set DF, and therefore send identification 0.
func (s *Socket) predictable(fd int) error { return neverFragment(fd, s.local.Addr().Is6()) }

// listen returns a bound socket for which option was called before. receives reports whether it will receive.
func listen(local netip.AddrPort, option func(fd int) error, receives bool) (udpConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return onFD(c, option) }}
	conn, err := lc.ListenPacket(context.Background(), network(local.Addr()), local.String())
	if err != nil {
		return nil, cause(err)
	}
	return connOf(conn.(*net.UDPConn), receives)
}

// onFD calls f with the descriptor of a connection.
func onFD(c syscall.RawConn, f func(fd int) error) error {
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = f(int(fd)) }); controlErr != nil {
		return controlErr
	}
	return err
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "udp4"
	}
	return "udp6"
}

func (s *Socket) setUp(cfg Config) error {
	ifi, err := host.InterfaceOf(s.local.Addr())
	if err != nil {
		return err
	}
	if s.mtu = host.PathMTU(ifi.MTU); s.mtu == 0 {
		return errors.Errorf("softroce/link: interface %s has an MTU of %d, RoCE needs %d; try: ip link set %s mtu 1500",
			ifi.Name, ifi.MTU, host.LeastMTU, ifi.Name)
	}
	s.scope = uint32(ifi.Index)
	s.status.Interface = ifi.Name
	send, receive, err := s.options(cfg)
	if err != nil {
		return err
	}
	s.sendMode.Store(uint32(send))
	s.receiveMode.Store(uint32(receive))
	if s.local.Addr().Is4() { // IPv6 has no identification
		s.testIdentification()
	}
	return nil
}

// Addr returns the bound address.
func (s *Socket) Addr() netip.Addr { return s.local.Addr() }

// MTU returns the largest path MTU of the interface.
func (s *Socket) MTU() int { return s.mtu }

// Reach connects a UDP socket to addr, which needs a route and sends nothing.
func (s *Socket) Reach(addr netip.Addr) error {
	if addr.IsMulticast() {
		return s.reachGroup(addr)
	}
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.local.Addr(), 0))
	conn, err := net.DialUDP(network(addr), local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, packet.Port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// SetTap sets the tap; nil removes it.
func (s *Socket) SetTap(t Tap) { s.tap.p.Store(&t) }

// Status returns the modes and limits of the Socket.
func (s *Socket) Status() Status {
	s.noting.Lock()
	defer s.noting.Unlock()
	st := s.status
	st.Send, st.Receive = Mode(s.sendMode.Load()), Mode(s.receiveMode.Load())
	st.Notes = slices.Clone(st.Notes)
	return st
}

// note adds a sentence to Status.
func (s *Socket) note(format string, args ...any) {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.status.Notes = append(s.status.Notes, fmt.Sprintf(format, args...))
}

// Counters returns the counts since Open. DropOverflow is the kernel's count.
func (s *Socket) Counters() Counters {
	c := s.counters.snapshot()
	c[DropOverflow] = max(s.overflow(), s.overflowed.Load())
	return c
}

// Close closes the socket. Waiting calls return net.ErrClosed; Close waits until they no
// longer use the socket.
func (s *Socket) Close() error {
	if n := s.overflow(); n != 0 {
		s.overflowed.Store(n)
	}
	s.closeOutlets()
	if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return errors.WithMessage(err, "softroce/link")
	}
	return nil
}

// Send implements Link.
func (s *Socket) Send(e *Egress) error {
	var report *SendError
	left := false
	for first, end := 0, 0; first < len(e.bursts); first = end {
		source := e.bursts[first].to.Source
		for end < len(e.bursts) && e.bursts[end].to.Source == source {
			end++
		}
		if left && slices.ContainsFunc(e.bursts[:first], func(b burst) bool { return b.to.Source == source && b.left() > 0 }) {
			continue // these go first
		}
		if err := s.send(s.outletOf(source), e, e.bursts[first:end], &report); err != nil {
			e.reset()
			return err
		}
		left = left || e.bursts[end-1].left() > 0
	}
	e.forget()
	if report != nil {
		s.counters.add(SendErrors, uint64(report.Packets))
		return report
	}
	return nil
}

// Receive implements Link.
func (s *Socket) Receive(in *Ingress) error {
	for {
		in.Packets = in.Packets[:0]
		var t Counters
		err := s.receive(in, &t)
		s.interrupted.Store(false)
		s.counters.received(&t)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = s.conn.SetReadDeadline(time.Time{})
			return ErrInterrupted
		}
		if err != nil || len(in.Packets) > 0 {
			return err
		}
	}
}

// Interrupt implements Link. It sets a deadline in the past.
func (s *Socket) Interrupt() {
	s.interrupted.Store(true)
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
}

// closed returns net.ErrClosed for an error that matches it, and wraps other errors.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return net.ErrClosed
	}
	return errors.WithMessage(err, "softroce/link")
}
