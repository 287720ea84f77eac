package admission

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	one   = netip.MustParseAddr("192.0.2.1")
	other = netip.MustParseAddr("192.0.2.2")
)

// visitor is a client whose idleness a test decides.
type visitor struct {
	*Client
	began time.Time // it is idle since then
	moved atomic.Bool
	ended atomic.Pointer[IdleError]
}

// greet makes a visitor connect by TCP and say hello.
func greet(ac *Controller, from netip.Addr) *visitor {
	c := ac.enter(context.Background(), &net.TCPAddr{}, &net.TCPAddr{IP: from.AsSlice()})
	_ = c.Hello(HelloLimit, func(context.Context) error { return nil })
	c.waited = func() time.Duration { return time.Since(c.since) } // it says nothing more
	return &visitor{Client: c, began: time.Now()}
}

// ask makes it ask for a place. If it has to leave, it does.
func (v *visitor) ask(ctx context.Context, memory int64) error {
	ctx, err := v.Admit(ctx, memory, func() (time.Duration, bool) { return time.Since(v.began), v.moved.Load() })
	if err == nil {
		context.AfterFunc(ctx, func() {
			var idle *IdleError
			if errors.As(context.Cause(ctx), &idle) {
				v.ended.Store(idle)
				time.Sleep(time.Millisecond)
				v.Leave()
			}
		})
	}
	return err
}

// come makes a visitor ask, and connect.
func come(ac *Controller, from netip.Addr, memory int64) (*visitor, error) {
	v := greet(ac, from)
	err := v.ask(context.Background(), memory)
	if err == nil {
		v.Connected(memory)
	}
	return v, err
}

func must(t *testing.T, v *visitor, err error) *visitor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// refused checks an error's text.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// hadToLeave reports whether one of the visitors had to leave for another.
func hadToLeave(all ...*visitor) bool {
	return slices.ContainsFunc(all, func(v *visitor) bool { return v.ended.Load() != nil })
}

func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 3, ClientsPerAddress: 2, Memory: 1 << 40, MemoryPerAddress: 1 << 40, Waiting: Waiting, Patience: Patience})
		a, err := come(ac, one, 1)
		must(t, a, err).moved.Store(true)
		b, err := come(ac, one, 1)
		must(t, b, err).moved.Store(true)
		began := time.Now()
		_, err = come(ac, one, 1)
		refused(t, err, "the server already has 2 clients from 192.0.2.1, of at most 2; try: later")
		if waited := time.Since(began); waited != Patience {
			t.Errorf("refused after %v", waited)
		}
		c, err := come(ac, other, 1)
		must(t, c, err).moved.Store(true)
		c.began = c.began.Add(time.Hour)
		_, err = come(ac, other, 1)
		refused(t, err, "the server already has 3 clients, of at most 3; try: later")
		a.Leave()
		a.Leave()
		_, err = come(ac, other, 1)
		must(t, nil, err)
		if hadToLeave(a, b, c) {
			t.Errorf("ended: %v, %v, %v", a.ended.Load(), b.ended.Load(), c.ended.Load())
		}
	})
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 100, ClientsPerAddress: 100, Memory: 100 << 20, MemoryPerAddress: 60 << 20, Patience: Patience})
		a, err := come(ac, one, 50<<20)
		must(t, a, err)
		_, err = come(ac, one, 20<<20)
		refused(t, err, "the client asks for 20 MiB of memory; all clients from 192.0.2.1 together use 50 MiB of at most 60 MiB; try: later, or less")
		_, err = come(ac, other, 51<<20)
		refused(t, err, "all clients together use 50 MiB of at most 100 MiB")
		_, err = come(ac, other, 61<<20)
		refused(t, err, "asks for 61 MiB of memory, and all clients from 192.0.2.2 together may use 60 MiB; try: less")
		_, err = come(ac, other, 50<<20)
		must(t, nil, err)
		_, err = come(ac, other, 1)
		refused(t, err, "asks for 1 bytes of memory; all clients together use 100 MiB of at most 100 MiB")
		a.Leave()
		_, err = come(ac, one, 50<<20)
		must(t, nil, err)
	})
}

// TestIdleClientsLeave fills a server with clients that do nothing. A newcomer gets the place of the
// one that was idle longest, within Patience.
func TestIdleClientsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 3, ClientsPerAddress: 3, Memory: 90, MemoryPerAddress: 90, Waiting: Waiting, Patience: Patience})
		var all []*visitor
		for range 3 {
			v, err := come(ac, one, 30)
			all = append(all, must(t, v, err))
			time.Sleep(time.Millisecond)
		}
		all[0].began = time.Now() // it did something just now
		began := time.Now()
		_, err := come(ac, other, 30)
		must(t, nil, err)
		if took := time.Since(began); took > Grace+10*time.Millisecond {
			t.Errorf("a place after %v", took)
		}
		if hadToLeave(all[0], all[2]) || all[1].ended.Load() == nil {
			t.Errorf("ended: %v, %v, %v", all[0].ended.Load(), all[1].ended.Load(), all[2].ended.Load())
		}
		time.Sleep(Grace)
		_, err = come(ac, other, 60) // two more leave
		must(t, nil, err)
		if all[0].ended.Load() == nil || all[2].ended.Load() == nil {
			t.Error("not enough clients left")
		}
	})
}

// TestBusyHost: clients that answer at once keep their places, however long the server takes to connect them.
func TestBusyHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, Waiting: Waiting, Patience: time.Hour})
		var crowd sync.WaitGroup
		for range Waiting {
			crowd.Go(func() {
				v := greet(ac, one)
				defer v.Leave()
				v.waited = func() time.Duration { return 0 }
				if err := v.ask(t.Context(), 1); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * Silence)
				if hadToLeave(v) {
					t.Errorf("%v", v.ended.Load())
				}
			})
		}
		crowd.Wait()
	})
}

// TestWaitingIsNotIdle: a client that has waited for its place has as much time for its first data as any other.
func TestWaitingIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, Waiting: Waiting, Patience: Patience})
		a, err := come(ac, one, 1)
		must(t, a, err)
		b := greet(ac, one)
		if err := b.ask(t.Context(), 1); err != nil { // after Grace
			t.Fatal(err)
		}
		b.Connected(1)
		began := time.Now()
		c, err := come(ac, one, 1)
		must(t, c, err)
		if waited := time.Since(began); waited < Grace {
			t.Errorf("a client had to leave %v after it connected", waited)
		}
	})
}

// TestNobodyLeavesInVain fills a server with idle clients. Newcomers that would still be refused
// do not make them leave.
func TestNobodyLeavesInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 3, ClientsPerAddress: 2, Memory: 90, MemoryPerAddress: 60, Waiting: Waiting, Patience: Patience})
		busy, err := come(ac, one, 10)
		must(t, busy, err).moved.Store(true)
		busy.began = busy.began.Add(time.Hour)
		large, err := come(ac, one, 50)
		must(t, large, err).moved.Store(true)
		idle, err := come(ac, other, 30)
		must(t, idle, err)
		time.Sleep(2 * Grace)
		_, err = come(ac, one, 1) // its address has all its places, with data
		refused(t, err, "2 clients from 192.0.2.1")
		_, err = come(ac, other, 61) // more than its address may ever have
		refused(t, err, "all clients from 192.0.2.2 together may use 60 bytes; try: less")
		large.Leave()
		_, err = come(ac, one, 51)
		refused(t, err, "all clients from 192.0.2.1 together use 10 bytes of at most 60 bytes")
		large, err = come(ac, one, 50)
		must(t, large, err).moved.Store(true)
		large.began = large.began.Add(time.Hour)
		_, err = come(ac, other, 40) // 60 bytes would stay in use
		refused(t, err, "all clients from 192.0.2.2 together use 30 bytes of at most 60 bytes")
		if hadToLeave(idle, busy) {
			t.Errorf("ended: %v, %v", idle.ended.Load(), busy.ended.Load())
		}
	})
}

// TestHugeSizes checks that sums of sizes do not overflow.
func TestHugeSizes(t *testing.T) {
	const most = 1<<63 - 1
	ac := New(Limits{Clients: 9, ClientsPerAddress: 9, Memory: most, MemoryPerAddress: most, Patience: Patience})
	a, err := come(ac, one, most-1)
	must(t, a, err)
	_, err = come(ac, one, 2)
	refused(t, err, "try: later, or less")
}

// TestBusyClientsStay checks that a client with data has more time, and that only clients of an
// address leave for one of that address.
func TestBusyClientsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 10, ClientsPerAddress: 1, Memory: 1000, MemoryPerAddress: 1000, Waiting: Waiting, Patience: Patience})
		a, err := come(ac, one, 1)
		must(t, a, err).moved.Store(true)
		b, err := come(ac, other, 1)
		must(t, b, err)
		time.Sleep(2 * Grace)
		_, err = come(ac, one, 1)
		refused(t, err, "1 clients from 192.0.2.1")
		time.Sleep(Pause)
		_, err = come(ac, one, 1)
		must(t, nil, err)
		if a.ended.Load() == nil || hadToLeave(b) {
			t.Errorf("ended: %v, %v", a.ended.Load(), b.ended.Load())
		}
	})
}

// TestThisHost checks that the limits of an address need not hold for clients on this host.
func TestThisHost(t *testing.T) {
	local := netip.MustParseAddr("127.0.0.1")
	for _, shared := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		ac := New(Limits{Clients: 2, ClientsPerAddress: 1, Memory: 2, MemoryPerAddress: 1, SharedPlaces: shared[0], SharedMemory: shared[1], Patience: Patience})
		for i := range 2 {
			_, err := come(ac, local, 1)
			if (err == nil) != (i == 0 || shared[0] && shared[1]) {
				t.Errorf("%v, client %d: %v", shared, i, err)
			}
		}
	}
}

func TestAdmitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 1, ClientsPerAddress: 1, Memory: 1, MemoryPerAddress: 1, Waiting: Waiting, Patience: Patience})
		v, err := come(ac, one, 1)
		must(t, v, err).moved.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := greet(ac, one).ask(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || len(ac.line) != 0 {
			t.Errorf("%v; %d wait", err, len(ac.line))
		}
	})
}

// TestCrowd lets many come and go at once, and counts what is left.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ac := New(Limits{Clients: 8, ClientsPerAddress: 8, Memory: 80, MemoryPerAddress: 80, Waiting: Waiting, Patience: Patience})
		done := make(chan error)
		for i := range 200 {
			go func() {
				v, err := come(ac, one, int64(i%20)+1)
				if err == nil {
					v.moved.Store(true)
					if i%3 > 0 {
						time.Sleep(time.Duration(i) * time.Millisecond)
						v.Leave()
					}
				}
				done <- err
			}()
		}
		taken := 0
		for range 200 {
			if err := <-done; err == nil {
				taken++
			}
		}
		time.Sleep(Pause + time.Second)
		if _, err := come(ac, other, 80); err != nil {
			t.Error(err)
		}
		if taken < 8 || len(ac.line) != 0 || ac.all != (usage{1, 0, 80}) || len(ac.by) != 1 || len(ac.admitted) != 1 {
			t.Errorf("%d taken, %d wait, %+v, %v, %d admitted", taken, len(ac.line), ac.all, ac.by, len(ac.admitted))
		}
	})
}

func TestKeyOf(t *testing.T) {
	for text, want := range map[string]string{"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::1": "::1", "2001:db8::1:2:3:4": "2001:db8::", "fe80::5%eth0": "fe80::"} {
		if got := keyOf(netip.MustParseAddr(text)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 5000: "5000 bytes", 10 << 10: "10 KiB", 5 << 20: "5120 KiB", 64 << 20: "64 MiB", 11 << 30: "11 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
