// Tests of sockets without room. The tests replace the system calls.

package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// takeOnly makes the kernel take n messages, and no more.
func takeOnly(s *Socket, n int) {
	s.system.sendmmsg = func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
		if n == 0 {
			return -1, unix.EAGAIN
		}
		sent, errno := sendmmsg(fd, m[:min(n, len(m))])
		if errno == 0 {
			n -= sent
		}
		return sent, errno
	}
}

// TestSendNeverWaits: what the kernel does not take stays in the Egress, with its ICRCs, in order, and goes on from another one.
func TestSendNeverWaits(t *testing.T) {
	for _, mode := range modes {
		for _, takes := range []int{0, 1, 2, 5} {
			t.Run(fmt.Sprintf("%v/%d", mode, takes), func(t *testing.T) {
				a, b := loopback(t, Config{Limit: mode}), loopback(t, Config{})
				var mu sync.Mutex
				tapped := 0
				a.SetTap(func(bool, packet.Frame, []byte) { mu.Lock(); tapped++; mu.Unlock() })
				const n, size = 10, 64
				e, kept := new(Egress), new(Egress)
				var data [3][]byte
				for i := range data {
					fill(t, e, b.Addr(), n, size, i*n)
					data[i] = e.bursts[i].data
				}
				takeOnly(a, takes)
				if err := a.Send(e); err != nil {
					t.Fatal(err)
				}
				sent := takes
				if mode == Segmented {
					sent = min(takes, 3) * n
				}
				if left := e.Packets(); left != 3*n-sent {
					t.Fatalf("%d packets are left, want %d", left, 3*n-sent)
				}
				for i := range data {
					if e.Has(data[i]) != (sent < (i+1)*n) {
						t.Errorf("burst %d is left: %v", i, e.Has(data[i]))
					}
				}
				if c := a.Counters(); c[SentPackets] != uint64(sent) || c[SendErrors] != 0 {
					t.Errorf("%+v", c)
				}
				e.MoveTo(kept, 1)
				if kept.Packets() > 0 {
					t.Error("packets from another port were moved")
				}
				e.MoveTo(kept, 0)
				if e.Packets() > 0 {
					t.Errorf("%d packets were not moved", e.Packets())
				}
				for i := range data {
					clear(data[i]) // the kept packets are copies
				}
				takeOnly(a, 1)
				for calls := 0; kept.Packets() > 0; calls++ {
					if calls > 3*n {
						t.Fatalf("%d packets are left", kept.Packets())
					}
					if err := a.Send(kept); err != nil {
						t.Fatal(err)
					}
					takeOnly(a, 1)
				}
				for i, p := range collect(t, b, 3*n) {
					if int(p.Data[11]) != i || p.Match != packet.MatchExact {
						t.Errorf("packet %d is %d, match %v", i, p.Data[11], p.Match)
					}
				}
				if sealed := 3 * n; tapped != sealed {
					t.Errorf("the tap saw %d packets, want %d", tapped, sealed)
				}
			})
		}
	}
}

// TestHas: all packets of a burst are one send, also if the last one is short, and Has finds those that are left.
func TestHas(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	a.system.sendmmsg = func(uintptr, []unix.Mmsghdr) (int, unix.Errno) { return -1, unix.EAGAIN }
	for _, c := range []struct{ bytes, size int }{{15*4112 + 3016, 4112}, {62*1040 + 20, 1040}, {20, 20}} {
		data, e := make([]byte, c.bytes), new(Egress)
		e.Add(Destination{Addr: b.Addr()}, data, c.size)
		if err := a.Send(e); err != nil {
			t.Fatal(err)
		}
		if len(e.bursts) != 1 || !e.Has(data) {
			t.Errorf("%d bytes are %d bursts, and are left %v", len(data), len(e.bursts), e.Has(data))
		}
	}
}

// TestNoRoomWithoutGSO: the kernel refuses GSO, and then has no room.
func TestNoRoomWithoutGSO(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	const n = 10
	room := 3
	a.system.sendmmsg = func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
		switch {
		case m[0].Hdr.Controllen > 0:
			return -1, unix.EIO
		case room == 0:
			return -1, unix.EAGAIN
		}
		room--
		return sendmmsg(fd, m[:1])
	}
	e := new(Egress)
	fill(t, e, b.Addr(), n, 64, 0)
	fill(t, e, b.Addr(), n, 64, n)
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	if left := e.Packets(); left != 2*n-3 || a.splits(b.Addr()) {
		t.Errorf("%d packets are left; %v", left, a.Status())
	}
	room = 2 * n
	if err := a.Send(e); err != nil || e.Packets() > 0 {
		t.Fatal(err, e.Packets())
	}
	for i, p := range collect(t, b, 2*n) {
		if int(p.Data[11]) != i {
			t.Errorf("packet %d is %d", i, p.Data[11])
		}
	}
}

// TestRoomPerSource: a socket without room stops only the packets from its own port.
func TestRoomPerSource(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	const port = 0xc123
	a.mu.Lock()
	err := a.openOutlet(port)
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	var full uintptr
	_ = a.conn.Control(func(fd uintptr) { full = fd })
	a.system.sendmmsg = func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
		if fd == full {
			return -1, unix.EAGAIN
		}
		return sendmmsg(fd, m)
	}
	e := new(Egress)
	for i, source := range []uint16{port, 0, port, 0} {
		fillTo(t, e, Destination{Addr: b.Addr(), Source: source}, 2, 64, 2*i)
	}
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	if e.Packets() != 4 || e.Source() != 0 || a.Counters()[SentPackets] != 4 {
		t.Errorf("%d packets are left, the first from port %d", e.Packets(), e.Source())
	}
}

// TestAwaitRoom checks that a wait for room ends with Close, and that a socket with room is not waited for.
func TestAwaitRoom(t *testing.T) {
	const detached = 0 // a mode of its own
	for _, mode := range append(modes, detached) {
		t.Run(mode.String(), func(t *testing.T) {
			a := loopback(t, Config{Limit: mode})
			if mode == detached {
				a.Detach()
			}
			if err := a.AwaitRoom(0); err != nil {
				t.Error(err)
			}
			waiting, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				first := true
				ended <- a.conn.Write(func(uintptr) bool {
					if first {
						close(waiting)
					}
					first = false
					return false
				})
			}()
			testkit.Receive(t, waiting, "wait")
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if err := testkit.Receive(t, ended, "end of a wait for room"); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if err := a.AwaitRoom(0); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			e := new(Egress)
			fill(t, e, netip.MustParseAddr("127.0.0.1"), 1, 64, 0)
			if err := a.Send(e); !errors.Is(err, net.ErrClosed) || e.Packets() > 0 {
				t.Error(err, e.Packets())
			}
		})
	}
}
