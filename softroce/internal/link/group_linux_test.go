package link

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// TestGroup joins a group by the sockets of two addresses, as two processes do: each gets a
// copy of what either sends, with the group's address as its destination.
func TestGroup(t *testing.T) {
	group := netip.MustParseAddr("239.77.3.4")
	var members []Link
	var sockets []*Socket
	for range 2 {
		s, err := OpenLoopback(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g, err := s.Join(group)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		members, sockets = append(members, g), append(sockets, s)
	}
	for _, s := range sockets {
		if err := s.Reach(group); err != nil {
			t.Errorf("Reach: %v", err)
		}
		sendTo(t, s, group)
		for i, g := range members {
			in := NewIngress()
			if err := g.Receive(in); err != nil {
				t.Fatal(err)
			}
			if p := in.Packets; len(p) != 1 || p[0].Src != s.Addr() || p[0].Dst != group {
				t.Errorf("member %d got %+v", i, p)
			}
		}
	}
	// One that has left gets nothing, the other does.
	members[0].Close()
	if err := members[0].Receive(NewIngress()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive after Close: %v", err)
	}
	sendTo(t, sockets[0], group)
	if err := members[1].Receive(NewIngress()); err != nil {
		t.Error(err)
	}
	// What is sent to another group comes to none.
	sendTo(t, sockets[0], netip.MustParseAddr("239.77.3.5"))
	time.AfterFunc(testkit.Moment, members[1].Interrupt)
	if err := members[1].Receive(NewIngress()); err != ErrInterrupted {
		t.Errorf("another group's packet: %v", err)
	}
	for _, bad := range []string{"10.0.0.1", "ff1e::1"} {
		if _, err := sockets[0].Join(netip.MustParseAddr(bad)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Join(%s): %v", bad, err)
		}
	}
}

// sendTo sends a UD packet to a group.
func sendTo(t *testing.T, s *Socket, group netip.Addr) {
	t.Helper()
	p, err := packet.Build(make([]byte, packet.MaxPacket), packet.UDSendOnly, 100)
	if err != nil {
		t.Fatal(err)
	}
	var e Egress
	e.Add(Destination{Addr: group}, p.Bytes(), len(p.Bytes()))
	if err := s.Send(&e); err != nil {
		t.Fatal(err)
	}
}

// TestGroupTaken: a join fails if another program has the port of the group's address, and succeeds afterwards.
func TestGroupTaken(t *testing.T) {
	group := netip.MustParseAddr("239.77.3.6")
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: packet.Port, Addr: group.As4()}); err != nil {
		t.Fatal(err)
	}
	s, err := OpenLoopback(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Join(group); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Join: %v", err)
	}
	syscall.Close(fd)
	g, err := s.Join(group)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
}
