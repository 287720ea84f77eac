// Tests of refusals by the kernel. The tests replace the system calls.

package link

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// refuse makes GSO sends fail, and also sends longer than longer bytes.
func refuse(s *Socket, errno unix.Errno, longer int) {
	s.system.sendmmsg = func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
		for i := range m {
			gso := int(m[i].Hdr.Controllen) > 0
			if gso || int(m[i].Hdr.Iov.Len) > longer {
				if i == 0 {
					return -1, errno
				}
				return sendmmsg(fd, m[:i])
			}
		}
		return sendmmsg(fd, m)
	}
}

func TestGSORefused(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EIO, unix.EINVAL} {
		a, b := loopback(t, Config{}), loopback(t, Config{})
		refuse(a, errno, 1<<16)
		e := new(Egress)
		fill(t, e, b.Addr(), 1, 64, 0)
		fill(t, e, b.Addr(), 40, 4096, 1)
		fill(t, e, b.Addr(), 1, 64, 41)
		for range 2 {
			if err := a.Send(e); err != nil {
				t.Fatal(err)
			}
			fill(t, e, b.Addr(), 40, 4096, 42)
		}
		got := collect(t, b, 82)
		for i, p := range got {
			if psn := int(p.Data[11]); psn != i || p.ID != 0 {
				t.Errorf("packet %d has PSN %d, ID %d", i, psn, p.ID)
			}
		}
		c, st := a.Counters(), a.Status()
		if c[SentPackets] != 82 || c[SentBursts] != 0 || c[Fallbacks] == 0 || c[SendErrors] != 0 {
			t.Errorf("%+v", c)
		}
		if a.splits(b.Addr()) || st.Send != Segmented || len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "refused GSO") {
			t.Errorf("%v", st)
		}
		t.Log(st)
	}
}

// TestGSORefusedToOne: an address without GSO leaves it to the others, until there are many.
func TestGSORefusedToOne(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	for i := range byte(mostUnsplit + 1) {
		if st := a.Status(); st.Send != Segmented || !a.splits(b.Addr()) {
			t.Fatalf("after %d addresses: %v", i, st)
		}
		a.fallBack(netip.AddrFrom4([4]byte{10, 0, 0, i}), unix.EIO)
		a.fallBack(netip.AddrFrom4([4]byte{10, 0, 0, i}), unix.EIO)
	}
	if st := a.Status(); st.Send != Batched || len(st.Notes) != mostUnsplit+1 {
		t.Errorf("after %d addresses: %v", mostUnsplit+1, st)
	}
}

// TestFewBytesPerCall checks that no system call takes many messages of 64 KiB: the collector waits for its end.
func TestFewBytesPerCall(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	var calls []int
	a.system.sendmmsg = func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
		calls = append(calls, len(m))
		return sendmmsg(fd, m)
	}
	e := new(Egress)
	for i := range 5 {
		fill(t, e, b.Addr(), 15, 4096, 15*i)
	}
	if err := a.Send(e); err != nil {
		t.Fatal(err)
	}
	collect(t, b, 75)
	if !slices.Equal(calls, []int{3, 2}) {
		t.Errorf("calls of %v messages of 60 KiB, want 3 and 2", calls)
	}
}

// TestTooLong checks that packets that are too long for the path do not turn GSO off.
func TestTooLong(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	e := new(Egress)
	data := make([]byte, MaxBurst+1000)
	e.Add(Destination{Addr: b.Addr()}, data, len(data))
	// Add makes at least one packet.
	if n := e.Packets(); n != 1 {
		t.Errorf("%d packets", n)
	}
	err := a.Send(e)
	var se *SendError
	if !errors.As(err, &se) || se.Packets != 1 || !errors.Is(err, syscall.EMSGSIZE) || !strings.Contains(err.Error(), "smaller path MTU") {
		t.Errorf("%v", err)
	}
	if st := a.Status(); st.Send != Segmented {
		t.Errorf("%v", st)
	}
}

func TestSendErrors(t *testing.T) {
	for _, mode := range modes {
		a, b := loopback(t, Config{Limit: mode}), loopback(t, Config{Limit: mode})
		e := new(Egress)
		nowhere := netip.MustParseAddr("203.0.113.1") // a loopback address cannot reach it
		fill(t, e, b.Addr(), 3, 64, 0)
		fill(t, e, nowhere, 2, 64, 0)
		fill(t, e, b.Addr(), 1, 64, 3)
		fill(t, e, netip.IPv6Loopback(), 1, 64, 3)
		fill(t, e, b.Addr(), 3, 64, 4)
		err := a.Send(e)
		var se *SendError
		if !errors.As(err, &se) || se.Packets != 3 || !strings.Contains(err.Error(), "; try: ") {
			t.Errorf("%v: %v", mode, err)
		}
		for i, p := range collect(t, b, 7) {
			if int(p.Data[11]) != i {
				t.Errorf("%v: packet %d is %d", mode, i, p.Data[11])
			}
		}
		if c := a.Counters(); c[SendErrors] != 3 || c[SentPackets] != 7 {
			t.Errorf("%v: %+v", mode, c)
		}
		if st := a.Status(); st.Send != mode {
			t.Errorf("%v", st)
		}
		t.Log(err)
	}
}

// TestNoBatches simulates a sandbox without sendmmsg and recvmmsg.
func TestNoBatches(t *testing.T) {
	s := loopback(t, Config{})
	none := func(uintptr, []unix.Mmsghdr) (int, unix.Errno) { return -1, unix.ENOSYS }
	s.system = systemCalls{sendmmsg: none, recvmmsg: none}
	send, receive, err := s.options(Config{Limit: Segmented, ReceiveBuffer: defaultReceiveBuffer})
	if send != Plain || receive != Plain || err != nil || len(s.Status().Notes) != 2 {
		t.Errorf("%v, %v, %v; %v", send, receive, err, s.Status())
	}
}

func TestOverflow(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{ReceiveBuffer: 4096})
	sendAll(t, a, b, 200, 4096)
	n := b.Counters()[DropOverflow]
	if n == 0 {
		t.Error("nothing counted")
	}
	b.Close()
	if after := b.Counters()[DropOverflow]; after != n {
		t.Errorf("%d, after Close %d", n, after)
	}
}

// TestPartly simulates a kernel that accepts a part of a batch, or is interrupted.
func TestPartly(t *testing.T) {
	a, b := loopback(t, Config{Limit: Batched}), loopback(t, Config{})
	calls := 0
	a.system.sendmmsg = func(fd uintptr, m []unix.Mmsghdr) (int, unix.Errno) {
		calls++
		switch calls % 3 {
		case 0:
			return -1, unix.EINTR
		case 1:
			return sendmmsg(fd, m[:1])
		}
		return sendmmsg(fd, m)
	}
	sendAll(t, a, b, 100, 64)
	for i, p := range collect(t, b, 100) {
		if int(p.Data[11]) != i {
			t.Fatalf("packet %d is %d", i, p.Data[11])
		}
	}
}
