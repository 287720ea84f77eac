// Tests of ATOMIC WRITE and FLUSH: their packets, refused requests, and that repeated requests
// are answered but not executed again.

package transport

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// atomicWrite returns a request that writes a's first word to b's word at off.
func atomicWrite(a, b *end, off int) verbs.SendWR {
	return verbs.SendWR{ID: 1, Opcode: verbs.OpAtomicWrite, SGL: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey()}
}

// flush returns a request that flushes n bytes of b's memory from off on.
func flush(b *end, off, n int) verbs.SendWR {
	return verbs.SendWR{ID: 1, Opcode: verbs.OpFlush, RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey(),
		Flush: verbs.Flush{Length: uint32(n), Type: verbs.FlushGlobal}}
}

func TestAtomicWrite(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	fill(a.mem[:64], 3)
	before := bytes.Clone(b.mem[:64])
	var requests, answers []packet.Packet
	net.tap = func(from, _ *simnode, raw []byte) bool {
		p, err := packet.Parse(bytes.Clone(raw))
		if err != nil {
			t.Error(err)
		}
		if from == a.node {
			requests = append(requests, p)
		} else {
			answers = append(answers, p)
		}
		return true
	}
	a.send(atomicWrite(a, b, 16))
	if wc := a.want(a.scq, 1, verbs.WCSuccess, verbs.WCAtomicWrite); wc.ByteLen != 0 {
		t.Errorf("byte_len %d", wc.ByteLen)
	}
	copy(before[16:], a.mem[:8])
	if !bytes.Equal(b.mem[:64], before) {
		t.Errorf("the memory is % x, want % x", b.mem[:64], before)
	}
	if len(requests) != 1 || requests[0].Opcode() != packet.RCAtomicWrite || requests[0].RETH().DMALen() != 8 ||
		!bytes.Equal(requests[0].Payload(), a.mem[:8]) {
		t.Errorf("the requester sent %v", requests)
	}
	if len(answers) != 1 || answers[0].Opcode() != packet.RCReadResponseOnly || len(answers[0].Payload()) != 0 {
		t.Errorf("the responder answered with %v", answers)
	}
}

func TestFlush(t *testing.T) {
	net, a, b := pair(t, 1, defaults())
	w := net.watch(a.node)
	a.send(flush(b, 16, 1000))
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCFlush)
	whole := flush(b, 0, 0)
	whole.RemoteAddr, whole.Flush.Level = 12345, verbs.FlushMR
	a.send(whole)
	a.want(a.scq, 1, verbs.WCSuccess, verbs.WCFlush)
	if len(w.packets) != 2 {
		t.Fatalf("the requester sent %v", w.packets)
	}
	p, q := w.packets[0], w.packets[1]
	if p.Opcode() != packet.RCFlush || p.FETH().Type() != verbs.FlushGlobal || p.FETH().Level() != verbs.FlushRange ||
		p.RETH().VA() != b.mr.Addr()+16 || p.RETH().DMALen() != 1000 || q.FETH().Level() != verbs.FlushMR {
		t.Errorf("the requester sent % x, % x", p.Bytes(), q.Bytes())
	}
}

// TestWordsRepeated loses the answer. The request is repeated, and must not overwrite the word,
// which the program has changed meanwhile.
func TestWordsRepeated(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpAtomicWrite, verbs.OpFlush} {
		net, a, b := pair(t, 1, defaults())
		binary.NativeEndian.PutUint64(a.mem, 7)
		answers := 0
		net.tap = func(from, _ *simnode, _ []byte) bool {
			if from == a.node {
				return true
			}
			if answers++; answers == 1 {
				binary.NativeEndian.PutUint64(b.mem, 8)
			}
			return answers > 2
		}
		wr := atomicWrite(a, b, 0)
		if op == verbs.OpFlush {
			wr = flush(b, 0, 8)
		}
		a.send(wr)
		a.want(a.scq, 1, verbs.WCSuccess, sendWCOpcodes[op])
		if got := binary.NativeEndian.Uint64(b.mem); got != 8 || answers != 3 {
			t.Errorf("%v: the word holds %d after %d answers, want 8 after 3", op, got, answers)
		}
		if b.node.engine.Counter(Duplicates) == 0 {
			t.Errorf("%v: no request was repeated", op)
		}
	}
}

func TestWordsRefusedAtPosting(t *testing.T) {
	_, a, b := pair(t, 1, defaults())
	for name, change := range map[string]func(*verbs.SendWR){
		"unaligned":    func(wr *verbs.SendWR) { wr.RemoteAddr += 4 },
		"4 bytes":      func(wr *verbs.SendWR) { wr.SGL = []verbs.SGE{a.sge(0, 4)} },
		"16 bytes":     func(wr *verbs.SendWR) { wr.SGL = []verbs.SGE{a.sge(0, 16)} },
		"two elements": func(wr *verbs.SendWR) { wr.SGL = []verbs.SGE{a.sge(0, 4), a.sge(4, 4)} },
		"no type":      func(wr *verbs.SendWR) { *wr = flush(b, 0, 8); wr.Flush.Type = 0 },
		"type 4":       func(wr *verbs.SendWR) { *wr = flush(b, 0, 8); wr.Flush.Type = 4 },
		"level 2":      func(wr *verbs.SendWR) { *wr = flush(b, 0, 8); wr.Flush.Level = 2 },
	} {
		wr := atomicWrite(a, b, 0)
		change(&wr)
		if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != syscall.EINVAL {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, a, b = pair(t, 1, ucOptions())
	for _, wr := range []verbs.SendWR{atomicWrite(a, b, 0), flush(b, 0, 8)} {
		if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != syscall.EINVAL {
			t.Errorf("%v on UC: %v", wr.Opcode, err)
		}
	}
}

// TestWordsRefusedByThePeer sends requests that the responder refuses. rxe's answer leads to
// the same status.
func TestWordsRefusedByThePeer(t *testing.T) {
	const region, queuePair = verbs.WCRemAccessErr, verbs.WCRemInvReqErr
	for name, c := range map[string]struct {
		tune   func(*options)
		change func(*verbs.SendWR)
		want   verbs.WCStatus
	}{
		"write: region without the right":     {func(o *options) { o.mrAccess &^= verbs.AccessRemoteWrite }, nil, region},
		"write: queue pair without the right": {func(o *options) { o.access &^= verbs.AccessRemoteWrite }, nil, queuePair},
		"write: a wrong key":                  {nil, func(wr *verbs.SendWR) { wr.RKey ^= 0x5500 }, region},
		"write: beyond the region":            {nil, func(wr *verbs.SendWR) { wr.RemoteAddr += 1 << 16 }, region},
		"flush: region without the right":     {func(o *options) { o.mrAccess &^= verbs.AccessFlushGlobal }, nil, region},
		"flush: queue pair without the right": {func(o *options) { o.access &^= verbs.AccessFlushGlobal }, nil, queuePair},
		"flush: a wrong key":                  {nil, func(wr *verbs.SendWR) { wr.RKey ^= 0x5500 }, region},
		"flush: beyond the region":            {nil, func(wr *verbs.SendWR) { wr.Flush.Length = 1 << 16 }, region},
		"flush: persistent":                   {nil, func(wr *verbs.SendWR) { wr.Flush.Type = verbs.FlushPersistent }, region},
		"flush: both types":                   {nil, func(wr *verbs.SendWR) { wr.Flush.Type |= verbs.FlushPersistent }, region},
		"flush: persistent, without the right": {func(o *options) { o.access &^= verbs.AccessFlushPersistent },
			func(wr *verbs.SendWR) { wr.Flush.Type = verbs.FlushPersistent }, queuePair},
		"flush: too long for a message": {nil, func(wr *verbs.SendWR) { wr.Flush.Length = 1<<31 + 1 }, queuePair},
	} {
		o := defaults()
		if c.tune != nil {
			c.tune(&o)
		}
		_, a, b := pair(t, 1, o)
		wr := atomicWrite(a, b, 16)
		if name[:5] == "flush" {
			wr = flush(b, 16, 100)
		}
		if c.change != nil {
			c.change(&wr)
		}
		a.send(wr)
		t.Log(name)
		a.want(a.scq, 1, c.want, 0)
		b.wantState(qpstate.Error)
	}
}

// TestMalformedWords sends packets that our requester never sends.
func TestMalformedWords(t *testing.T) {
	for name, c := range map[string]struct {
		op  packet.Opcode
		set func(b *end, p packet.Packet)
	}{
		"write: a length of 16": {packet.RCAtomicWrite, func(b *end, p packet.Packet) { p.RETH().Set(b.mr.Addr(), b.mr.RKey(), 16) }},
		"write: unaligned":      {packet.RCAtomicWrite, func(b *end, p packet.Packet) { p.RETH().Set(b.mr.Addr()+4, b.mr.RKey(), 8) }},
		"flush: no type": {packet.RCFlush, func(b *end, p packet.Packet) {
			p.RETH().Set(b.mr.Addr(), b.mr.RKey(), 8)
		}},
		"flush: level 3": {packet.RCFlush, func(b *end, p packet.Packet) {
			p.RETH().Set(b.mr.Addr(), b.mr.RKey(), 8)
			p.FETH().Set(verbs.FlushGlobal, 3)
		}},
	} {
		net, a, b := pair(t, 1, defaults())
		naks := 0
		net.tap = func(_, _ *simnode, raw []byte) bool {
			if syndromeOf(raw) == packet.NAKInvalidRequest {
				naks++
			}
			return true
		}
		payload := 0
		if c.op == packet.RCAtomicWrite {
			payload = packet.WordLen
		}
		before := bytes.Clone(b.mem)
		b.inject(a, c.op, a.opts.psn, payload, func(p packet.Packet) { c.set(b, p) })
		net.transmit()
		net.settle()
		if naks == 0 || !bytes.Equal(before, b.mem) {
			t.Errorf("%s: %d NAKs, want at least 1 and unchanged memory", name, naks)
		}
	}
}
