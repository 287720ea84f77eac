package room

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// listen returns a socket like a soft device's, on an address of its own, and its address.
func listen(t *testing.T, buffer int) (*net.UDPConn, netip.Addr) {
	t.Helper()
	for last := range byte(200) {
		a := netip.AddrFrom4([4]byte{127, 5, 77, last + 1})
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, packet.Port)))
		if err != nil {
			continue
		}
		t.Cleanup(func() { c.Close() })
		raw, err := c.SyscallConn()
		if err == nil {
			err = reusePort("", "", raw)
		}
		if err == nil {
			err = c.SetReadBuffer(buffer)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c, a
	}
	t.Fatal("UDP port 4791 is in use on all addresses; try: modprobe -r rdma_rxe")
	return nil, netip.Addr{}
}

// listenAt returns a further socket of an address.
func listenAt(t *testing.T, a netip.Addr, buffer int) (*net.UDPConn, error) {
	l := net.ListenConfig{Control: reusePort}
	c, err := l.ListenPacket(t.Context(), "udp4", netip.AddrPortFrom(a, packet.Port).String())
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UDPConn), c.(*net.UDPConn).SetReadBuffer(buffer)
}

func reusePort(_, _ string, c syscall.RawConn) (err error) {
	_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return err
}

// TestSeveralSockets fills one of a receiver's four sockets, each in turn. The receiver is then full, and not before. The
// test replaces the sockets in between.
func TestSeveralSockets(t *testing.T) {
	const buffer, sockets, size = 100 << 10, 4, 1000
	first, to := listen(t, buffer)
	rs := New(buffer, sockets)
	defer rs.Close()
	conns := []*net.UDPConn{first}
	for range 3 {
		for len(conns) < sockets {
			c, err := listenAt(t, to, buffer)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		if rs.Unread(to) {
			t.Error("something is unread at the beginning")
		}
		for i, c := range conns {
			sendTo := onlyTo(t, conns, i)
			n := 0
			for ; !rs.Full(to, size); n++ {
				if n > 1000 {
					t.Fatalf("socket %d is never full", i)
				}
				if _, err := sendTo.WriteToUDPAddrPort(make([]byte, size), netip.AddrPortFrom(to, packet.Port)); err != nil {
					t.Fatal(err)
				}
				rs.Sent(to)
			}
			if n*size < buffer/50 || !rs.Unread(to) {
				t.Errorf("socket %d is full after %d datagrams; unread %v", i, n, rs.Unread(to))
			}
			drain(t, c, n)
		}
		for _, c := range conns[1:] {
			c.Close()
		}
		conns = conns[:1]
	}
}

// onlyTo returns a socket whose datagrams to the address of conns arrive at conns[i].
func onlyTo(t *testing.T, conns []*net.UDPConn, i int) *net.UDPConn {
	to := conns[0].LocalAddr().(*net.UDPAddr).AddrPort()
	for range 1000 {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.WriteToUDPAddrPort([]byte{1}, to); err != nil {
			t.Fatal(err)
		}
		at := -1
		testkit.Until(t, "datagram that arrives", func() bool {
			at = slices.IndexFunc(conns, func(c *net.UDPConn) bool { return receives(t, c) })
			return at >= 0
		})
		if at == i {
			return c
		}
	}
	t.Fatalf("no socket found that sends to socket %d", i)
	return nil
}

// receives takes a datagram from a socket, if there is one.
func receives(t *testing.T, c *net.UDPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if controlErr := raw.Control(func(fd uintptr) {
		_, _, err = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_DONTWAIT)
	}); controlErr != nil || err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Fatal(controlErr, err)
	}
	return err == nil
}

// drain receives n datagrams.
func drain(t *testing.T, c *net.UDPConn, n int) {
	t.Helper()
	if err := c.SetReadDeadline(testkit.Deadline()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, _, err := c.ReadFromUDPAddrPort(make([]byte, packet.MaxPacket)); err != nil {
			t.Fatalf("%d of %d datagrams: %v", i, n, err)
		}
	}
}

// TestFull sends to a receiver that takes nothing, as long as Full allows it. Then nothing may be
// lost, and the receiver has room again after it has received.
func TestFull(t *testing.T) {
	const buffer = 100 << 10
	for _, size := range []int{20, 1000, 4096} {
		c, to := listen(t, buffer)
		rs := New(buffer, 1)
		defer rs.Close()
		datagram := make([]byte, size)
		send := func() (sent int) {
			for !rs.Full(to, size) {
				if _, err := c.WriteToUDPAddrPort(datagram, netip.AddrPortFrom(to, packet.Port)); err != nil {
					t.Fatal(err)
				}
				rs.Sent(to)
				if sent++; sent > 100_000 {
					t.Fatalf("%d bytes: the receiver is never full", size)
				}
			}
			return sent
		}
		for range 3 {
			n := send()
			if n*size < buffer/50 {
				t.Errorf("%d bytes: full after %d datagrams", size, n)
			}
			drain(t, c, n)
		}
	}
}

// TestStuck sends to a receiver that never receives: it is full for a limited time only.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const buffer = 100 << 10
		c, to := listen(t, buffer)
		rs := New(buffer, 1)
		defer rs.Close()
		for !rs.Full(to, 1000) {
			if _, err := c.WriteToUDPAddrPort(make([]byte, 1000), netip.AddrPortFrom(to, packet.Port)); err != nil {
				t.Fatal(err)
			}
			rs.Sent(to)
		}
		fullFor(t, rs, to)
	})
}

// fullFor checks that a receiver that has just become full is full as long as patience lasts.
func fullFor(t *testing.T, rs *Receivers, to netip.Addr) {
	t.Helper()
	time.Sleep(patience - time.Nanosecond)
	if !rs.Full(to, 1000) {
		t.Error("not full any more, too early")
	}
	time.Sleep(time.Nanosecond)
	if rs.Full(to, 1000) {
		t.Error("full forever")
	}
}

// TestUnsent lets nothing be sent: Full must not forget what it has allowed.
func TestUnsent(t *testing.T) {
	const buffer = 100 << 10
	_, to := listen(t, buffer)
	rs := New(buffer, 1)
	defer rs.Close()
	n := 0
	for ; !rs.Full(to, 1000); n++ {
		if n > 100 {
			t.Fatal("Full forgets bursts that are not sent yet")
		}
	}
	if rs.Sent(to); n == 0 || rs.Full(to, 1000) {
		t.Errorf("full after %d bursts and Sent; nothing waits there", n)
	}
}

// TestNeverSent checks that a burst which never leaves, because its request fails, does not stop
// others forever.
func TestNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const buffer = 100 << 10
		_, to := listen(t, buffer)
		rs := New(buffer, 1)
		defer rs.Close()
		for !rs.Full(to, 1000) {
		}
		fullFor(t, rs, to)
	})
}

// TestUnknown asks for receivers that the kernel does not know.
func TestUnknown(t *testing.T) {
	rs := New(100<<10, 1)
	ask := func(to string) {
		for range 10_000 {
			if rs.Full(netip.MustParseAddr(to), 60_000) {
				t.Fatalf("%s is full", to)
			}
		}
	}
	for _, to := range []string{"127.255.255.254", "192.0.2.1", "fe80::1%lo", "224.0.0.77"} {
		ask(to)
	}
	for a, i := netip.MustParseAddr("10.0.0.0"), 0; i < 3*maxReceivers; a, i = a.Next(), i+1 {
		rs.Full(a, 1000)
	}
	if len(rs.byAddr) > maxReceivers {
		t.Errorf("%d receivers remembered, want at most %d", len(rs.byAddr), maxReceivers)
	}
	rs.Close()
	ask("127.0.0.1")
	rs.Close()
}
