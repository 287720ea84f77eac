// Tests that the self-test passes here, and that it can fail.

package link

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestSelfTest(t *testing.T) {
	s := loopback(t, Config{})
	if st := s.Status(); st.Send != Segmented || len(st.Notes) != 0 {
		t.Errorf("%v", st)
	}
	v6, _ := pair(t, true, Config{})
	if st := v6.Status(); len(st.Notes) != 0 {
		t.Errorf("%v", st)
	}
}

// TestSelfTestFails uses a socket without neverFragment, which numbers its packets or
// does not set DF.
func TestSelfTestFails(t *testing.T) {
	s := loopback(t, Config{})
	real := s.conn
	defer func() { s.conn = real }()
	usual, err := listen(netip.AddrPortFrom(s.Addr(), 0), func(int) error { return nil }, false)
	if err != nil {
		t.Fatal(err)
	}
	defer usual.Close()
	s.conn = usual
	s.testIdentification()
	st := s.Status()
	if !strings.Contains(fmt.Sprint(st.Notes), "no packet with identification 0 and DF") {
		t.Errorf("%v", st)
	}
	t.Log(st)
}
