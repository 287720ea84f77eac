package transport

import (
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestFailedCheck compares FailedCheck with the responder's own verdict on requests with each combination of faults: it names
// a check if the responder refuses, and a check of the kind that the syndrome reports.
func TestFailedCheck(t *testing.T) {
	const (
		queuePair = 1 << iota // ACCESS_FLAGS lack the right
		slots                 // MAX_DEST_RD_ATOMIC is too low
		key
		domain
		right
		bounds
		all = 1<<iota - 1
	)
	needs := map[packet.Opcode]verbs.Access{packet.RCWriteOnly: verbs.AccessRemoteWrite, packet.RCReadRequest: verbs.AccessRemoteRead,
		packet.RCFetchAdd: verbs.AccessRemoteAtomic, packet.RCAtomicWrite: verbs.AccessRemoteWrite, packet.RCFlush: verbs.AccessFlushGlobal}
	for op, need := range needs {
		for faults := range all + 1 {
			o := defaults()
			if faults&queuePair != 0 {
				o.access &^= need
			}
			if faults&slots != 0 {
				o.rdAtomic = 0
			}
			if faults&right != 0 {
				o.mrAccess &^= need
			}
			n := newSimnet(t, 1)
			a, b := n.node("fd00::1").end(o), n.node("fd00::2").end(o)
			a.connect(b)
			b.connect(a)
			va, rkey := b.mr.Addr(), b.mr.key
			if faults&domain != 0 {
				mr, err := b.node.domain().RegisterMR(alignedBytes(o.memory), o.mrAccess)
				if err != nil {
					t.Fatal(err)
				}
				va, rkey = mr.Addr(), mr.key
			}
			if faults&key != 0 {
				rkey ^= 1
			}
			if faults&bounds != 0 {
				va += uint64(o.memory)
			}
			w, check, payload := n.watch(b.node), "", 0
			if h := op.Operation(); h == packet.OpWrite || h == packet.OpAtomicWrite {
				payload = atomicLen
			}
			b.inject(a, op, o.psn, payload, func(p packet.Packet) {
				p.BTH().SetAckReq(true)
				if h := p.FETH(); h != nil {
					h.Set(verbs.FlushGlobal, verbs.FlushRange)
				}
				if h := p.RETH(); h != nil {
					h.Set(va, rkey, atomicLen)
				} else {
					p.AtomicETH().Set(va, rkey, 1, 0)
				}
				check = b.qp.FailedCheck(p)
			})
			n.transmit()
			want := accepted
			switch {
			case strings.HasPrefix(check, "ACCESS_FLAGS"), strings.HasPrefix(check, "MAX_DEST_RD_ATOMIC"):
				want = packet.NAKInvalidRequest
			case check != "":
				want = packet.NAKRemoteAccess
			}
			if len(w.packets) != 1 {
				t.Fatalf("%v with faults %06b: %d answers", op, faults, len(w.packets))
			}
			got := syndromeOf(w.packets[0].Bytes())
			if got.Kind() == packet.KindACK {
				got = accepted
			}
			if got != want {
				t.Errorf("%v with faults %06b: the check is %q, the answer is %v", op, faults, check, got)
			}
		}
	}
}
