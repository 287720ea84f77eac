// Tests of a device whose sockets have no room.

package softroce_test

import (
	"bytes"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestNothingWaitsForRoom: posts return and messages arrive while the sockets have no room. Then everything leaves once.
func TestNothingWaitsForRoom(t *testing.T) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	timing := rc.DefaultTiming()
	timing.Timeout, timing.Forever = 0, true // nothing is sent again, so every packet counts
	c, s := connect(t, x, y, rc.Config{Timing: &timing})
	st := streamTo(t, c, s, verbs.OpRDMAWrite, mib)
	st.run(t, 4)
	in, err := c.AllocMR("in", 1, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{in.SGE(0, 1)}}}); err != nil {
		t.Fatal(err)
	}
	room := softroce.Fill(x)
	for i := range st.mr.Bytes() {
		st.mr.Bytes()[i] = byte(i >> 8)
	}
	for range 4 {
		if err := c.QP().PostSend(st.wrs); err != nil {
			t.Fatal(err)
		}
	}
	if !softroce.PacketsWait(x) {
		t.Error("no packets wait")
	}
	if err := s.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{st.remote.SGE(0, 1)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.QP().RecvCQ().Wait(testkit.Context(t), st.wcs); err != nil {
		t.Error("a message does not arrive:", err)
	}
	testkit.Until(t, "end of the timers of packets that wait", func() bool { return !softroce.TimerSet(x) })
	room()
	for done := 0; done < 4; {
		n, err := c.QP().SendCQ().Wait(testkit.Context(t), st.wcs)
		if err != nil {
			t.Fatal(err)
		}
		done += n
	}
	wcs := make([]verbs.WC, 1)
	if _, err := s.QP().SendCQ().Wait(testkit.Context(t), wcs); err != nil || wcs[0].Err() != nil {
		t.Error("the ACK that waited:", err, wcs[0])
	}
	if !bytes.Equal(st.mr.Bytes(), st.remote.Bytes()) {
		t.Error("the data differ")
	}
	if softroce.PacketsWait(x) {
		t.Error("packets wait")
	}
}

// TestRestAfterRoom: what did not fit into an outbox leaves when there is room, without another call.
func TestRestAfterRoom(t *testing.T) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	softroce.WithoutRoom(x)
	c, s := connect(t, x, y, rc.Config{Type: verbs.UC})
	st := streamTo(t, c, s, verbs.OpRDMAWrite, 4*mib)
	room := softroce.Fill(x)
	if err := c.QP().PostSend(st.wrs); err != nil {
		t.Fatal(err)
	}
	room()
	testkit.Until(t, "rest of the message", func() bool { return softroce.SentBytes(x) > 4*mib })
}

// TestCloseWithoutRoom: Close of a connection and of its device return while packets wait.
func TestCloseWithoutRoom(t *testing.T) {
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	c, s := connect(t, x, y, rc.Config{})
	st := streamTo(t, c, s, verbs.OpRDMAWrite, mib)
	st.run(t, 4)
	softroce.Fill(x)
	if err := c.QP().PostSend(st.wrs); err != nil {
		t.Fatal(err)
	}
	if !softroce.PacketsWait(x) {
		t.Error("no packets wait")
	}
	for _, end := range []interface{ Close() error }{c, x} {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
	}
}
