package rnet

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// devices returns a device for each end. The ends of soft0 have a device each, because only one
// goroutine per device receives packets itself.
func devices(tb testing.TB) (dialing, listening *verbs.Device) {
	dialing = softtest.Open(tb)
	if softtest.Soft {
		return dialing, softtest.Open(tb)
	}
	return dialing, dialing
}

// pair returns both ends of a connection.
func pair(tb testing.TB, dialing, listening Config) (client, server *Conn) {
	tb.Helper()
	l, err := (&ListenConfig{Config: listening}).Listen(tb.Context(), network, host+":0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	c, err := (&Dialer{Config: dialing}).DialContext(testkit.Context(tb), network, l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	return c.(*Conn), s.(*Conn)
}

const host = "127.0.0.1"

// softPair is pair on the device under test, with small rings. The end of the test closes both ends.
func testPair(tb testing.TB, cfg Config) (client, server *Conn) {
	tb.Helper()
	here, there := cfg, cfg
	here.Device, there.Device = devices(tb)
	client, server = pair(tb, here, there)
	tb.Cleanup(func() { end(client); end(server) })
	return client, server
}

// end closes a Conn and waits until everything is freed.
func end(c *Conn) {
	c.Close()
	<-c.ended
}

func TestNettest(t *testing.T) {
	a, b := devices(t)
	for name, ring := range map[string]int{"ring 64 KiB": minRing, "ring 2 MiB": defaultRing} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				x, y := pair(t, Config{Device: a, Ring: ring}, Config{Device: b, Ring: ring})
				return x, y, func() { end(x); end(y) }, nil
			})
		})
	}
}
