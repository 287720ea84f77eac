package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestStarved lets a peer be silent while packets lie unread. Then the queue pair waits far longer than
// RETRY_CNT allows. It goes on when the peer does. When nothing lies unread any more, or after a limit, it
// has the rest of its retries.
func TestStarved(t *testing.T) {
	const size = 100
	timeout := qpstate.ACKTimeout(defaults().timeout)
	for name, test := range map[string]struct {
		silent time.Duration // the peer's packets are lost for so long
		unread time.Duration // something lies unread for so long
		status verbs.WCStatus
		at     time.Duration // when the request completes, in ACK timeouts
	}{
		"the peer is gone":        {never, 0, verbs.WCRetryExcErr, 1 + 2 + 6*4},
		"the peer goes on":        {96 * timeout, never, verbs.WCSuccess, 1 + 2 + 4 + 8 + 6*16},
		"the peer ends":           {never, 96 * timeout, verbs.WCRetryExcErr, 1 + 2 + 4 + 8 + 6*16 + 2 + 6*4},
		"the peer stops for good": {never, never, verbs.WCRetryExcErr, 1 + 2 + 4 + 8 + 21*16 + 2 + 6*4},
	} {
		t.Run(name, func(t *testing.T) {
			sim, a, b := pair(t, 1, defaults())
			a.node.engine.cfg.Unread = func(*Path, time.Duration) bool { return sim.now < test.unread }
			sim.tap = func(_, _ *simnode, _ []byte) bool { return sim.now >= test.silent }
			b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, size)}})
			a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, size)}})
			a.want(a.scq, 1, test.status, verbs.WCSend)
			if sim.now/timeout != test.at {
				t.Errorf("completed after %d ACK timeouts, want %d", sim.now/timeout, test.at)
			}
			if n := a.node.engine.Counter(StarvedTimeouts); (n > 0) != (test.unread > 0) || n > mostStarved {
				t.Errorf("%d timeouts did not count", n)
			}
		})
	}
}

// TestStoppedPeer is the figure of docs/softroce.md for a stopped program.
func TestStoppedPeer(t *testing.T) {
	o := defaults()
	o.timeout = 14
	sim, a, _ := pair(t, 1, o)
	a.node.engine.cfg.Unread = func(*Path, time.Duration) bool { return true }
	sim.tap = func(_, _ *simnode, _ []byte) bool { return false }
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	a.want(a.scq, 1, verbs.WCRetryExcErr, 0)
	if seconds := sim.now.Truncate(time.Second); seconds != 25*time.Second {
		t.Errorf("a stopped peer is noticed after %v, want 25 s", seconds)
	}
}

// TestDeadBesideStreams: this side's receiver is always some time behind, because others send. A dead peer is
// noticed as without them, if that time is shorter than the ACK timeout. If it is longer, the timeout
// grows until it counts, and again after that.
func TestDeadBesideStreams(t *testing.T) {
	timeout := qpstate.ACKTimeout(defaults().timeout)
	for _, test := range []struct{ behind, at time.Duration }{
		{0, 1 + 2 + 6*4},
		{timeout / 2, 1 + 2 + 6*4},
		{timeout * 3 / 2, 1 + 2 + 2 + 6*4},
		{timeout * 3, 1 + 2 + 4 + 2 + 4 + 6*4},
	} {
		sim, a, _ := pair(t, 1, defaults())
		a.node.engine.cfg.Unread = func(_ *Path, since time.Duration) bool { return sim.now-test.behind <= since }
		sim.tap = func(_, _ *simnode, _ []byte) bool { return false }
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
		a.want(a.scq, 1, verbs.WCRetryExcErr, 0)
		if sim.now/timeout != test.at {
			t.Errorf("%v behind: failed after %d ACK timeouts, want %d", test.behind, sim.now/timeout, test.at)
		}
	}
}
