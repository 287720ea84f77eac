// Data: each operation, with lengths around the packet size, in both directions.

package verbstest

import (
	"fmt"

	"github.com/rawverbs/rawverbs/verbs"
)

// length is a message length, which may depend on the path MTU.
type length struct {
	name string
	of   func(mtu int) int
}

func bytesLong(n int) length { return length{fmt.Sprint(n), func(int) int { return n }} }

var lengths = []length{
	bytesLong(0), bytesLong(1), bytesLong(7),
	{"MTU-1", func(mtu int) int { return mtu - 1 }},
	{"MTU", func(mtu int) int { return mtu }},
	{"MTU+1", func(mtu int) int { return mtu + 1 }},
	{"3 MTU+5", func(mtu int) int { return 3*mtu + 5 }},
	bytesLong(64 << 10), bytesLong(1 << 20),
}

// dataCases returns cases for every operation of RC and UC with every length. UC omits the
// longest, because a message is lost if any of its packets is lost.
func dataCases() []Case {
	var cases []Case
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		ops := []verbs.Opcode{verbs.OpSend, verbs.OpSendWithImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpRDMARead}
		lens := lengths
		if typ == verbs.UC {
			ops, lens = ops[:4], lengths[:7]
		}
		for _, op := range ops {
			for _, l := range lens {
				cases = append(cases, Case{"data", fmt.Sprintf("%s %s of %s", typ.Name(), opName(op), l.name), func(e *Env) { carry(e, typ, op, l) }})
			}
		}
	}
	return cases
}

func opName(op verbs.Opcode) string { return op.String()[len("IBV_WR_"):] }

const imm = 0xc0ffee42

// carry moves one message in each direction and checks everything visible.
func carry(e *Env, typ verbs.QPType, op verbs.Opcode, l length) {
	n := l.of(e.port().ActiveMTU.Bytes())
	const guard = 64
	at := guard + 1 // offset of the data at both ends: odd, and between guards
	a, b := e.pair(wiring{typ: typ, size: n + 2*guard + 2})
	for _, way := range []struct{ from, to *end }{{a, b}, {b, a}} {
		from, to := way.from, way.to
		source, target := from, to
		if op == verbs.OpRDMARead {
			source, target = to, from
		}
		clear(target.mr.Bytes())
		want := source.fill(at, n)

		wr := verbs.SendWR{ID: 42, Opcode: op, Imm: imm}
		if n > 0 {
			wr.SGL = from.sge(at, n)
		}
		wr = from.remote(wr, to, at)
		receives := op != verbs.OpRDMAWrite && op != verbs.OpRDMARead
		if receives {
			to.receive(43, to.sge(at, n)...)
		}
		from.signaled(wr)
		e.sendCompletion(from, op, n)
		if receives {
			e.recvCompletion(to, op, n)
		} else if typ == verbs.UC { // a later message shows that the WRITE has arrived
			to.receive(44)
			from.signaled(verbs.SendWR{Opcode: verbs.OpSend})
			from.done()
			to.got()
		}
		e.same("the data", target.bytes(at, n), want)
		e.same("what is before it", target.bytes(0, guard), make([]byte, guard))
		e.same("what is after it", target.bytes(at+n, guard), make([]byte, guard))
		nothing := make([]verbs.WC, 1)
		k, err := to.recv.Poll(nothing)
		e.check(k == 0 && err == nil, "an additional completion: %+v, %v", nothing, err)
	}
}

func (e *Env) sendCompletion(x *end, op verbs.Opcode, n int) {
	want := map[verbs.Opcode]verbs.WCOpcode{
		verbs.OpSend: verbs.WCSend, verbs.OpSendWithImm: verbs.WCSend, verbs.OpRDMARead: verbs.WCRDMARead,
		verbs.OpRDMAWrite: verbs.WCRDMAWrite, verbs.OpRDMAWriteWithImm: verbs.WCRDMAWrite,
	}[op]
	wc := x.done()
	e.check(wc.ID == 42 && wc.Opcode == want && wc.QPN == x.qp.QPN(), "the send is %+v, want %v", wc, want)
	if op == verbs.OpRDMARead {
		e.check(int(wc.ByteLen) == n, "byte_len of the READ is %d", wc.ByteLen)
	}
}

func (e *Env) recvCompletion(x *end, op verbs.Opcode, n int) {
	wc := x.got()
	want, flags, data := verbs.WCRecv, verbs.WCFlags(0), uint32(0)
	if op == verbs.OpRDMAWriteWithImm {
		want = verbs.WCRecvRDMAWithImm
	}
	if op != verbs.OpSend {
		flags, data = verbs.WCWithImm, imm
	}
	e.check(wc.ID == 43 && wc.Opcode == want && wc.QPN == x.qp.QPN(), "the receive is %+v, want %v", wc, want)
	e.check(wc.Flags&verbs.WCWithImm == flags && wc.Imm() == data, "immediate data %#x, flags %v", wc.Imm(), wc.Flags)
	e.check(int(wc.ByteLen) == n, "byte_len of the receive is %d, want %d", wc.ByteLen, n)
}
