package room

import (
	"net"
	"net/netip"
	"testing"
	"time"

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
		if err := c.SetReadBuffer(buffer); err != nil {
			t.Fatal(err)
		}
		return c, a
	}
	t.Fatal("UDP port 4791 is in use on all addresses; try: modprobe -r rdma_rxe")
	return nil, netip.Addr{}
}

// TestFull sends to a receiver that takes nothing, as long as Full allows it. Then nothing may be
// lost, and the receiver has room again after it has received.
func TestFull(t *testing.T) {
	const buffer = 100 << 10
	for _, size := range []int{20, 1000, 4096} {
		c, to := listen(t, buffer)
		rs := New(buffer)
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
		receive := func(n int) {
			if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if _, _, err := c.ReadFromUDPAddrPort(datagram); err != nil {
					t.Fatalf("%d bytes: %d of %d datagrams: %v", size, i, n, err)
				}
			}
		}
		for range 3 {
			n := send()
			if n*size < buffer/50 {
				t.Errorf("%d bytes: full after %d datagrams", size, n)
			}
			receive(n)
		}
	}
}

// TestStuck sends to a receiver that never receives: it is full for a limited time only.
func TestStuck(t *testing.T) {
	const buffer = 100 << 10
	c, to := listen(t, buffer)
	rs := New(buffer)
	defer rs.Close()
	for !rs.Full(to, 1000) {
		if _, err := c.WriteToUDPAddrPort(make([]byte, 1000), netip.AddrPortFrom(to, packet.Port)); err != nil {
			t.Fatal(err)
		}
		rs.Sent(to)
	}
	for begun := time.Now(); rs.Full(to, 1000); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*patience {
			t.Fatal("full for ever")
		}
	}
}

// TestUnsent lets nothing be sent: Full must not forget what it has allowed.
func TestUnsent(t *testing.T) {
	const buffer = 100 << 10
	_, to := listen(t, buffer)
	rs := New(buffer)
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
	const buffer = 100 << 10
	_, to := listen(t, buffer)
	rs := New(buffer)
	defer rs.Close()
	for !rs.Full(to, 1000) {
	}
	for begun := time.Now(); rs.Full(to, 1000); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*patience {
			t.Fatal("full forever")
		}
	}
}

// TestUnknown asks for receivers that the kernel does not know.
func TestUnknown(t *testing.T) {
	rs := New(100 << 10)
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
