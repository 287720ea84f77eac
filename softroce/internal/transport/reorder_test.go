package transport

import (
	"runtime"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestReorderBufferEndsWithItsGap loses a packet of each of many queue pairs. When it has come, a queue pair has no more
// memory than before.
func TestReorderBufferEndsWithItsGap(t *testing.T) {
	const pairs, most = 256, 4 << 10
	o := defaults()
	o.cap, o.memory, o.cqDepth, o.mtu, o.rdAtomic = verbs.QPCap{MaxSendWR: 1}, 4096, 2, qpstate.MTU1024, 1
	n := newSimnet(t, 1)
	x, y := n.nodeWith("fd00::1", Config{Reorder: 64}), n.nodeWith("fd00::2", Config{Reorder: 64})
	var from, to [pairs]*end
	for i := range pairs {
		from[i], to[i] = x.end(o), y.end(o)
		from[i].connect(to[i])
		to[i].connect(from[i])
		from[i].move(to[i], verbs.OpRDMAWrite, 4096)
	}
	before := testkit.Heap()
	for i := range pairs {
		n.lose(from[i], once(from[i].psn(4)))
		from[i].move(to[i], verbs.OpRDMAWrite, 4096)
	}
	if got := y.engine.Counter(Kept); got < pairs {
		t.Fatalf("%d packets were kept", got)
	}
	if grown := testkit.Heap() - before; grown > pairs*most {
		t.Errorf("%d bytes per queue pair are in use after its gap", grown/pairs)
	}
	runtime.KeepAlive(n)
}
