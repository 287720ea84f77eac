package rnet

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// greet says hello to a listener as a client does, and does no more.
func (l *Listener) greet(t *testing.T) *oob.Conn {
	t.Helper()
	c, err := oob.Dial(t.Context(), l.Addr().String(), oob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: jobName, Params: helloParams(minRing)}); err != nil {
		t.Fatal(err)
	}
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
	err := eventually(func() bool { return openFiles() <= files && runtime.NumGoroutine() <= goroutines })
	if err != nil {
		t.Errorf("%d files and %d goroutines; before %d and %d", openFiles(), runtime.NumGoroutine(), files, goroutines)
	}
	l.accept(t)
	l.dial(t, d)
	l.accept(t)
}

// TestSlowPeersLoseTheirPlaces: peers that fall silent after their hello do not keep others out.
func TestSlowPeersLoseTheirPlaces(t *testing.T) {
	l, d := listen(t, ListenConfig{Backlog: 4})
	for range 4 * waitingPerPlace / 2 {
		l.greet(t)
	}
	began := time.Now()
	l.dial(t, d)
	if took := time.Since(began); took > connectLimit*8/10 {
		t.Errorf("an honest peer connects after %v", took)
	}
	l.accept(t)
	for range 4*waitingPerPlace + 4 { // as many as have room, and more
		l.greet(t)
	}
	err := eventually(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waiting == waitingPerPlace*cap(l.places)
	})
	if err != nil {
		t.Error("the listener does not fill up")
	}
	if _, err := d.DialContext(t.Context(), network, l.Addr().String()); err == nil {
		t.Error("a full listener takes one more peer")
	}
}
