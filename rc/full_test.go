// Tests of servers that are full.

package rc

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// TestAFullServerSaysSo checks the error, and that a place can be used again.
func TestAFullServerSaysSo(t *testing.T) {
	s := serve(t, ServerConfig{MaxConns: 2}, untilEOF)
	first, _ := s.mustClient(t)
	s.mustClient(t)
	var refused *oob.PeerError
	if _, _, err := s.client(t); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the server is full, with 2 clients") {
		t.Fatalf("the third: %v", err)
	}
	if err := first.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Close()
	var err error
	testkit.Until(t, "place for another client", func() bool {
		var c *Conn
		if c, _, err = s.client(t); err == nil {
			c.Close()
		}
		return err == nil
	}, func() string { return err.Error() })
}

// TestSilentClientsMakeRoom takes all places from one address with hellos, and says nothing more. A client of
// another address is served.
func TestSilentClientsMakeRoom(t *testing.T) {
	s := serve(t, ServerConfig{MaxConns: 4}, untilEOF)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
	for range 2 * 4 {
		nc, err := from.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		silent := oob.NewConn(nc, oob.Options{})
		t.Cleanup(func() { silent.Close() })
		if _, err := silent.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: "serving"}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "full server", func() bool { u := s.admission.Usage(); return u.Clients == 4 && u.Waiting > 0 })
	for range 2 {
		var c *Conn
		var err error
		testkit.Until(t, "place for another address", func() bool { // on a busy host, those that have to leave may be late
			c, _, err = s.client(t)
			return err == nil
		}, func() string { return err.Error() })
		if err := c.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}
