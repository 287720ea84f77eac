package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var sizes = []int{0, 1, 3, 8, 1023, 1024, 1025, 2047, 2048, 5000, 20000}

func TestSend(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			net, a, b := pair(t, 1, defaults())
			fill(a.mem, n)
			b.recv(verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.sge(100, 1000), b.sge(5000, 40000)}})
			a.send(verbs.SendWR{ID: 9, Opcode: verbs.OpSendWithImm, Imm: 0x12345678, SGL: []verbs.SGE{a.sge(0, n/3), a.sge(n/3, n-n/3)}})
			wc := b.want(b.rcq, 7, verbs.WCSuccess, verbs.WCRecv)
			if int(wc.ByteLen) != n || wc.Imm() != 0x12345678 {
				t.Errorf("length %d, immediate %#x", wc.ByteLen, wc.Imm())
			}
			a.want(a.scq, 9, verbs.WCSuccess, verbs.WCSend)
			head := min(n, 1000)
			if !bytes.Equal(a.mem[:head], b.mem[100:100+head]) || !bytes.Equal(a.mem[head:n], b.mem[5000:5000+n-head]) {
				t.Error("the peer received other bytes than were sent")
			}
			net.settle()
		})
	}
}

func TestWriteAndRead(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			net, a, b := pair(t, 1, defaults())
			fill(a.mem[:n], n)
			b.recv(verbs.RecvWR{ID: 1})
			a.send(
				verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.sge(0, n)}, RemoteAddr: b.mr.Addr() + 5, RKey: b.mr.RKey()},
				verbs.SendWR{ID: 2, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.sge(30000, n)}, RemoteAddr: b.mr.Addr() + 5, RKey: b.mr.RKey()},
				verbs.SendWR{ID: 3, Opcode: verbs.OpRDMAWriteWithImm, Imm: 5, SGL: []verbs.SGE{a.sge(0, n)}, RemoteAddr: b.mr.Addr() + 30000, RKey: b.mr.RKey()})
			a.want(a.scq, 1, verbs.WCSuccess, verbs.WCRDMAWrite)
			if wc := a.want(a.scq, 2, verbs.WCSuccess, verbs.WCRDMARead); int(wc.ByteLen) != n {
				t.Errorf("READ of %d bytes", wc.ByteLen)
			}
			a.want(a.scq, 3, verbs.WCSuccess, verbs.WCRDMAWrite)
			if wc := b.want(b.rcq, 1, verbs.WCSuccess, verbs.WCRecvRDMAWithImm); int(wc.ByteLen) != n || wc.Imm() != 5 {
				t.Errorf("length %d, immediate %d", wc.ByteLen, wc.Imm())
			}
			for _, got := range [][]byte{b.mem[5:], a.mem[30000:], b.mem[30000:]} {
				if !bytes.Equal(a.mem[:n], got[:n]) {
					t.Error("the peer received other bytes than were sent")
				}
			}
			net.settle()
		})
	}
}

func TestAtomics(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	binary.NativeEndian.PutUint64(b.mem[16:], 100)
	atomicWR := func(id uint64, op verbs.Opcode, compareAdd, swap uint64) verbs.SendWR {
		return verbs.SendWR{ID: id, Opcode: op, SGL: []verbs.SGE{a.sge(8*int(id), 8)}, RemoteAddr: b.mr.Addr() + 16, RKey: b.mr.RKey(),
			CompareAdd: compareAdd, Swap: swap}
	}
	a.send(atomicWR(0, verbs.OpAtomicFetchAndAdd, 5, 0), atomicWR(1, verbs.OpAtomicCmpAndSwp, 105, 7),
		atomicWR(2, verbs.OpAtomicCmpAndSwp, 105, 8), atomicWR(3, verbs.OpAtomicFetchAndAdd, ^uint64(0), 0))
	for i, op := range []verbs.WCOpcode{verbs.WCFetchAdd, verbs.WCCompSwap, verbs.WCCompSwap, verbs.WCFetchAdd} {
		a.want(a.scq, uint64(i), verbs.WCSuccess, op)
	}
	for i, want := range []uint64{100, 105, 7, 7} {
		if got := binary.NativeEndian.Uint64(a.mem[8*i:]); got != want {
			t.Errorf("atomic %d returned %d, want %d", i, got, want)
		}
	}
	if got := binary.NativeEndian.Uint64(b.mem[16:]); got != 6 {
		t.Errorf("the word holds %d, want 6", got)
	}
}

func TestRNR(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 3000)}})
	for range 20 {
		net.step(never - 1)
	}
	b.recv(verbs.RecvWR{ID: 2, SGL: []verbs.SGE{b.sge(0, 3000)}})
	b.want(b.rcq, 2, verbs.WCSuccess, verbs.WCRecv)
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
	if b.node.engine.Counter(RNRNAKs) == 0 {
		t.Error("no RNR NAK was sent")
	}

	o := defaults()
	o.rnrRetry = 2
	_, a, b = pair(t, 1, o)
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 3000)}}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	a.want(a.scq, 1, verbs.WCRNRRetryExcErr, 0)
	a.want(a.scq, 2, verbs.WCWRFlushErr, 0)
	a.wantState(qpstate.Error)
	if got := b.node.engine.Counter(RNRNAKs); got != 3 {
		t.Errorf("%d RNR NAKs, want 3: one, and two after retries", got)
	}
}

// TestRNRThatAcknowledges sends two messages, but only the first finds a receive. The RNR NAK
// of the second acknowledges the first. The sender must still wait.
func TestRNRThatAcknowledges(t *testing.T) {
	o := defaults()
	o.rnrRetry = 1
	_, a, b := pair(t, 1, o)
	b.recv(verbs.RecvWR{ID: 9})
	a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCSend)
	a.want(a.scq, 2, verbs.WCRNRRetryExcErr, 0)
	if got := b.node.engine.Counter(RNRNAKs); got != 2 {
		t.Errorf("%d RNR NAKs, want 2: one, and one after the retry", got)
	}
}
