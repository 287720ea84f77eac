//go:build linux && netns

// Tests of a slow interface: a token bucket (tc-tbf) on the loopback interface of a network namespace.

package softroce_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/rnet"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/softroce/internal/host/hosttest"
	"github.com/rawverbs/rawverbs/verbs"
)

// rates are those of slow.
var rates = []string{"80mbit", "8mbit", "8kbit", "down"}

// TestNetnsSlowInterface checks that only packets wait for a slow interface: posts, deadlines, contexts and Close do
// not.
func TestNetnsSlowInterface(t *testing.T) {
	if !hosttest.OwnNetwork(t) {
		return
	}
	for _, rate := range rates {
		for name, test := range map[string]func(t *testing.T, rate string){
			"post": testPost, "dead peer": testDeadPeer, "deadline": testDeadline, "context and Close": testContext,
		} {
			t.Run(rate+"/"+name, func(t *testing.T) { test(t, rate) })
		}
	}
}

// slow makes the loopback interface slow until the test ends. Connections must be made before.
func slow(t *testing.T, rate string) {
	t.Helper()
	if rate == "down" {
		hosttest.SetLink(t, "lo", false)
		t.Cleanup(func() { hosttest.SetLink(t, "lo", true) })
		return
	}
	tc(t, "add dev lo root tbf burst 70k limit 100m rate "+rate)
	t.Cleanup(func() { tc(t, "del dev lo root") })
}

func tc(t *testing.T, qdisc string) {
	t.Helper()
	if out, err := exec.Command("tc", append([]string{"qdisc"}, strings.Fields(qdisc)...)...).CombinedOutput(); err != nil {
		t.Fatalf("tc qdisc %s: %v\n%s; try: apt-get install iproute2, and a kernel with sch_tbf", qdisc, err, out)
	}
}

// before ends the test if f does not return within the limit of all waits.
func before(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	testkit.Receive(t, done, what)
}

// testPost: a post returns before the interface has taken the message.
func testPost(t *testing.T, rate string) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	c, s := connect(t, x, y, rc.Config{Type: verbs.UC})
	st := streamTo(t, c, s, verbs.OpRDMAWrite, mib)
	slow(t, rate)
	before(t, "end of a post", func() {
		for range 2 {
			if err := c.QP().PostSend(st.wrs); err != nil {
				t.Error(err)
			}
			if sent := softroce.SentBytes(x); sent >= mib && rate != "down" { // an interface that is down drops packets
				t.Errorf("PostSend returned when the interface had taken %d bytes", sent)
			}
		}
	})
	if rate == "80mbit" {
		testkit.Until(t, "rest of the messages", func() bool { return softroce.SentBytes(x) > 2*mib })
	}
}

// testDeadPeer: a SEND to a peer that does not answer fails, although some of its packets wait.
func testDeadPeer(t *testing.T, rate string) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	c, s := connect(t, x, y, rc.Config{})
	st := streamTo(t, c, s, verbs.OpRDMAWrite, mib)
	st.run(t, 1)
	if err := s.QP().Modify(&verbs.QPAttr{State: qpstate.Error}, qpstate.MaskState); err != nil {
		t.Fatal(err)
	}
	slow(t, rate)
	before(t, "completion", func() {
		wc, err := c.Do(testkit.Context(t), &verbs.SendWR{Opcode: verbs.OpSend, SGL: st.wrs[0].SGL})
		if wc.Status != verbs.WCRetryExcErr {
			t.Error(err)
		}
	})
}

// testDeadline: a Write of package rnet ends with its deadline, and SetDeadline and Close return.
func testDeadline(t *testing.T, rate string) {
	x, y := openUntilFree(t), openUntilFree(t)
	l, err := (&rnet.ListenConfig{Config: rnet.Config{Device: y}}).Listen(t.Context(), "rdma", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialer := rnet.Dialer{Config: rnet.Config{Device: x}}
	c, err := dialer.DialContext(testkit.Context(t), "rdma", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	go func() { _, _ = io.Copy(io.Discard, s) }()
	for range 16 { // so that the window is open
		if _, err := c.Write(make([]byte, mib)); err != nil {
			t.Fatal(err)
		}
	}
	slow(t, rate)
	before(t, "end of a Write with a deadline", func() {
		if err := c.SetWriteDeadline(time.Now().Add(testkit.Moment)); err != nil {
			t.Error(err)
		}
		for err = nil; err == nil; {
			_, err = c.Write(make([]byte, mib))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
	})
	before(t, "end of Close", func() {
		c.(*rnet.Conn).SetLinger(0)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// openUntilFree opens a device for connections of package rnet, which free their objects after Close.
func openUntilFree(t *testing.T) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testkit.Until(t, "end of the connections", func() bool { err = dev.Close(); return err == nil }, func() string { return err.Error() })
	})
	return dev
}

// testContext: a wait for a message that the interface has not taken ends with its context, and Close returns.
func testContext(t *testing.T, rate string) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	c, s := connect(t, x, y, rc.Config{})
	st := streamTo(t, c, s, verbs.OpRDMAWrite, 16*mib)
	st.run(t, 2) // so that the window is open
	slow(t, rate)
	before(t, "end of a wait", func() {
		if err := c.QP().PostSend(st.wrs); err != nil {
			t.Error(err)
		}
		if _, err := c.QP().SendCQ().Wait(testkit.Expiring(t), st.wcs); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	before(t, "end of Close", func() {
		for _, end := range []interface{ Close() error }{c, x} {
			if err := end.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
