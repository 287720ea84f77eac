package rnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// greet says hello to a listener as a client does, and does no more. If a step takes too long on a busy host it
// tries again.
func (l *Listener) greet(t *testing.T) (c *oob.Conn) {
	t.Helper()
	testkit.Until(t, "hello of the listener", func() bool {
		var err error
		if c, err = oob.Dial(t.Context(), l.Addr().String(), oob.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, err = c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: jobName, Params: helloParams(minRing)})
		if err != nil && !late(err) && !errors.As(err, new(*oob.ClosedError)) {
			t.Fatal(err)
		}
		return err == nil
	})
	return c
}

func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}

// TestWaitingPeersLeave: a listener whose program does not accept forgets peers that wait and leave.
func TestWaitingPeersLeave(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 1})
	l.dial(t, d) // takes the only place
	files, goroutines := openFiles(), runtime.NumGoroutine()
	for range 5 * waitingPerPlace {
		l.greet(t).Close()
	}
	testkit.Until(t, "end of the files and goroutines of peers that left",
		func() bool { return openFiles() <= files && runtime.NumGoroutine() <= goroutines },
		func() string {
			return fmt.Sprintf("%d files and %d goroutines; before %d and %d", openFiles(), runtime.NumGoroutine(), files, goroutines)
		})
	l.accept(t)
	l.dial(t, d)
	l.accept(t)
}

// TestFullListenerSaysSo: the peer that a full listener refuses has an error that says why.
func TestFullListenerSaysSo(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 1, Config: Config{Timeout: testkit.Limit}})
	l.dial(t, d) // takes the only place
	for range waitingPerPlace {
		l.greet(t)
	}
	waiting := func() int { return l.admission.Usage().Waiting }
	testkit.Until(t, "full listener", func() bool { return waiting() == waitingPerPlace },
		func() string { return fmt.Sprintf("%d peers wait", waiting()) })
	c, err := d.DialContext(testkit.Context(t), network, l.Addr().String())
	if err == nil {
		end(c.(*Conn))
	}
	var refused *oob.PeerError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), errFull.Error()) {
		t.Errorf("one more peer: %v, want %v", err, errFull)
	}
}

// TestSilentPeersTakeLittle: peers that say hello and nothing more take a bounded amount of memory, and do not keep out
// a peer of another address.
func TestSilentPeersTakeLittle(t *testing.T) {
	l, d := listen(t, ListenConfig{})
	l.cfg.Ring = defaultRing // of listen it is the least
	const most = connectingMemory / defaultRing
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
	for range 5 * most {
		nc, err := from.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := oob.NewConn(nc, oob.Options{})
		t.Cleanup(func() { c.Close() })
		if _, err := c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: jobName, Params: helloParams(defaultRing)}); err != nil {
			t.Fatal(err)
		}
		if n := l.admission.Usage().Clients; n > most {
			t.Errorf("%d silent peers have rings", n)
		}
	}
	testkit.Until(t, "silent peers that wait", func() bool { return l.admission.Usage().Waiting > 0 })
	l.dial(t, d)
	l.accept(t)
}
