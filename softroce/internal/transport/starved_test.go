package transport

import (
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestStarved lets a peer be silent while packets lie unread. Then the queue pair waits far longer than
// RETRY_CNT allows. It goes on when the peer does; it ends when nothing lies unread any more, or after
// a limit. The ACK timeout is 4 ms.
func TestStarved(t *testing.T) {
	const size = 100
	for name, test := range map[string]struct {
		silent   time.Duration // the peer's packets are lost for so long
		unread   time.Duration // something lies unread for so long
		status   verbs.WCStatus
		from, to time.Duration // when the request completes
	}{
		"the peer goes on":        {400 * time.Millisecond, never, verbs.WCSuccess, 400 * time.Millisecond, 600 * time.Millisecond},
		"the peer is gone":        {never, 0, verbs.WCRetryExcErr, 100 * time.Millisecond, 120 * time.Millisecond},
		"the peer ends":           {never, 400 * time.Millisecond, verbs.WCRetryExcErr, 500 * time.Millisecond, 1100 * time.Millisecond},
		"the peer stops for good": {never, never, verbs.WCRetryExcErr, 1800 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			sim, a, b := pair(t, 1, defaults())
			a.node.engine.cfg.Unread = func(p *Path) bool { return sim.now < test.unread }
			sim.tap = func(_, _ *simnode, _ []byte) bool { return sim.now >= test.silent }
			b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.sge(0, size)}})
			a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, size)}})
			sim.settle()
			a.want(a.scq, 1, test.status, verbs.WCSend)
			if sim.now < test.from || sim.now > test.to {
				t.Errorf("completed after %v, want %v to %v", sim.now, test.from, test.to)
			}
			if n := a.node.engine.Counter(StarvedTimeouts); (n > 0) != (test.unread > 0) || n > mostStarved {
				t.Errorf("%d timeouts did not count", n)
			}
		})
	}
}
