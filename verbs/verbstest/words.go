// ATOMIC WRITE and FLUSH.

package verbstest

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

// wordPair returns an RC pair that can post ATOMIC WRITEs; on libibverbs only the ibv_wr_*
// calls have them. The regions and the queue pairs allow FLUSH if the device has it.
func (e *Env) wordPair(tune func(a, b *verbs.QPAttr)) (a, b *end) {
	w := wiring{access: everything | e.flushes(), tune: func(a, b *verbs.QPAttr) {
		a.Access |= e.flushes()
		b.Access |= e.flushes()
		if tune != nil {
			tune(a, b)
		}
	}}
	if e.Dev.Info().Provider == "libibverbs" {
		w.path = verbs.PostWRAPI
	}
	return e.pair(w)
}

// caps returns the device's capabilities.
func (e *Env) caps() verbs.DeviceCap {
	ex, err := e.Dev.QueryEx()
	e.ok(err, "QueryEx")
	return ex.Caps
}

// flushes returns the right to FLUSH, or 0 if the device does not have it.
func (e *Env) flushes() verbs.Access {
	if e.caps()&verbs.CapFlushGlobal != 0 {
		return verbs.AccessFlushGlobal
	}
	return 0
}

// wordTo returns an ATOMIC WRITE of the end's word at from to the peer's at to.
func (x *end) wordTo(peer *end, from, to int) verbs.SendWR {
	return x.remote(verbs.SendWR{ID: 5, Opcode: verbs.OpAtomicWrite, Flags: verbs.SendSignaled, SGL: x.sge(from, 8)}, peer, to)
}

// flushOf returns a FLUSH of n bytes of the peer's memory from off on.
func (x *end) flushOf(peer *end, off, n int) verbs.SendWR {
	wr := verbs.SendWR{ID: 6, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, Flush: verbs.Flush{Length: uint32(n), Type: verbs.FlushGlobal}}
	return x.remote(wr, peer, off)
}

var wordCases = []Case{
	{"atomic write", "the device reports the capability", func(e *Env) {
		e.check(e.caps()&verbs.CapAtomicWrite != 0, "the capabilities are %v", e.caps())
	}},
	{"atomic write", "a word, and only the word", func(e *Env) {
		a, b := e.wordPair(nil)
		word := a.fill(0, 8)
		want := b.fill(792, 24)
		a.post(a.wordTo(b, 0, 800))
		wc := a.done()
		e.check(wc.ID == 5 && wc.Opcode == verbs.WCAtomicWrite, "the completion is %+v", wc)
		copy(want[8:], word)
		e.same("the word and its neighbours", b.bytes(792, 24), want)
		works(a, b)
	}},
	{"atomic write", "inline", func(e *Env) {
		a, b := e.wordPair(nil)
		word := a.fill(0, 8)
		wr := a.wordTo(b, 0, 800)
		wr.Flags |= verbs.SendInline
		a.post(wr)
		clear(a.bytes(0, 8))
		a.done()
		e.same("the word", b.bytes(800, 8), word)
	}},
	{"atomic write", "a chain, in order, after the WRITEs before", func(e *Env) {
		a, b := e.wordPair(nil)
		want := a.fill(1000, 20000)
		const rounds = 10
		for i := range rounds {
			a.setWord(8*i, uint64(i+1))
			a.post(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(1000, 20000)}, b, 30000), a.wordTo(b, 8*i, 800))
		}
		for i, wc := range a.sent(rounds) {
			e.success(wc, "an ATOMIC WRITE")
			e.check(wc.ID == 5, "completion %d is of request %d", i, wc.ID)
		}
		e.check(b.word(800) == rounds, "the word holds %d", b.word(800))
		e.same("the WRITE", b.bytes(30000, 20000), want)
	}},
	{"atomic write", "no reader sees half a word", func(e *Env) {
		a, b := e.wordPair(nil)
		word := (*uint64)(unsafe.Pointer(&b.bytes(800, 8)[0]))
		var stop atomic.Bool
		e.Cleanup(func() error { stop.Store(true); return nil })
		halves := make(chan uint64, 1)
		go func() {
			half := uint64(0)
			for !stop.Load() {
				for range 100 {
					if v := atomic.LoadUint64(word); v != 0 && v != ^uint64(0) {
						half = v
					}
				}
				time.Sleep(100 * time.Microsecond) // simulated time stands still while a goroutine spins
			}
			halves <- half
		}()
		binary.NativeEndian.PutUint64(a.bytes(8, 8), ^uint64(0))
		for i := range 200 {
			a.post(a.wordTo(b, i%2*8, 800))
			a.done()
		}
		stop.Store(true)
		half := <-halves
		e.check(half == 0, "a reader saw %#x", half)
	}},
	{"atomic write", "refused: an address that is not aligned", func(e *Env) {
		a, b := e.wordPair(nil)
		err := a.qp.PostSend([]verbs.SendWR{a.wordTo(b, 0, 804)})
		e.fails(err, "the post", syscall.EINVAL)
		e.says(err, "is not a multiple of 8")
	}},
	{"atomic write", "refused: another length than 8", func(e *Env) {
		a, b := e.wordPair(nil)
		for _, n := range []int{0, 4, 7, 9, 16} {
			wr := a.wordTo(b, 0, 800)
			wr.SGL = a.sge(0, n)
			e.fails(a.qp.PostSend([]verbs.SendWR{wr}), "the post", syscall.EINVAL)
		}
		works(a, b)
	}},
	{"atomic write", "refused on UC", func(e *Env) {
		a, b := e.pair(wiring{typ: verbs.UC})
		e.fails(a.qp.PostSend([]verbs.SendWR{a.wordTo(b, 0, 800)}), "the post", syscall.EINVAL, syscall.EOPNOTSUPP)
	}},
	wordRefused("atomic write", "a queue pair without REMOTE_WRITE", func(_, b *verbs.QPAttr) { b.Access &^= verbs.AccessRemoteWrite }, nil, verbs.WCRemInvReqErr),
	wordRefused("atomic write", "a region without REMOTE_WRITE", nil, func(wr *verbs.SendWR, b *end) {
		reader := b.e.mr(b.pd, 4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		wr.RemoteAddr, wr.RKey = reader.Addr(), reader.RKey()
	}, verbs.WCRemAccessErr),
	wordRefused("atomic write", "a wrong rkey", nil, func(wr *verbs.SendWR, _ *end) { wr.RKey ^= 0x5555 }, verbs.WCRemAccessErr),
	wordRefused("atomic write", "beyond the region's end", nil, func(wr *verbs.SendWR, b *end) {
		wr.RemoteAddr = b.mr.Addr() + uint64(b.mr.Len())
	}, verbs.WCRemAccessErr),
	wordRefused("atomic write", "MAX_DEST_RD_ATOMIC is 0", func(_, b *verbs.QPAttr) { b.MaxDestRdAtomic = 0 }, nil, verbs.WCRemInvReqErr),

	{"flush request", "a range, and the whole region", func(e *Env) {
		a, b := e.wordPair(nil)
		want := a.fill(0, 20000)
		whole := a.flushOf(b, 0, 0)
		whole.RemoteAddr, whole.Flush.Level = 0, verbs.FlushMR
		a.post(a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 20000)}, b, 100), a.flushOf(b, 100, 20000), whole)
		for _, wc := range a.sent(2) {
			e.success(wc, "a FLUSH")
			e.check(wc.ID == 6 && wc.Opcode == verbs.WCFlush, "the completion is %+v", wc)
		}
		e.same("the memory", b.bytes(100, 20000), want)
		works(a, b)
	}},
	{"flush request", "refused: no type", func(e *Env) {
		a, b := e.wordPair(nil)
		wr := a.flushOf(b, 0, 8)
		wr.Flush.Type = 0
		err := a.qp.PostSend([]verbs.SendWR{wr})
		e.fails(err, "the post", syscall.EINVAL)
		e.says(err, "Flush.Type is not set")
	}},
	flushRefused("a queue pair without FLUSH_GLOBAL", func(_, b *verbs.QPAttr) { b.Access &^= verbs.AccessFlushGlobal }, nil, verbs.WCRemInvReqErr),
	flushRefused("a region without FLUSH_GLOBAL", nil, func(wr *verbs.SendWR, b *end) {
		plain := b.e.mr(b.pd, 4096, everything)
		wr.RemoteAddr, wr.RKey = plain.Addr(), plain.RKey()
	}, verbs.WCRemAccessErr),
	flushRefused("beyond the region's end", nil, func(wr *verbs.SendWR, b *end) { wr.Flush.Length = uint32(b.mr.Len()) }, verbs.WCRemAccessErr),
	flushRefused("FLUSH_PERSISTENT of memory", func(_, b *verbs.QPAttr) { b.Access |= verbs.AccessFlushPersistent }, func(wr *verbs.SendWR, b *end) {
		wr.Flush.Type = verbs.FlushPersistent
	}, verbs.WCRemAccessErr),
	{"flush request", "memory is not persistent: such a region is refused", func(e *Env) {
		_, err := e.pd().AllocMR(4096, everything|verbs.AccessFlushPersistent)
		e.fails(err, "AllocMR", syscall.EOPNOTSUPP, syscall.EINVAL)
	}},
}

// wordRefused is a case of an ATOMIC WRITE that the peer refuses.
func wordRefused(group, name string, tune func(a, b *verbs.QPAttr), change func(*verbs.SendWR, *end), want ...verbs.WCStatus) Case {
	return Case{group, "refused by the peer: " + name, func(e *Env) {
		a, b := e.wordPair(tune)
		wr := a.wordTo(b, 0, 800)
		a.fill(0, 8)
		e.refuses(a, b, wr, change, want)
	}}
}

// flushRefused is a case of a FLUSH that the peer refuses.
func flushRefused(name string, tune func(a, b *verbs.QPAttr), change func(*verbs.SendWR, *end), want ...verbs.WCStatus) Case {
	return Case{"flush request", "refused by the peer: " + name, func(e *Env) {
		a, b := e.wordPair(tune)
		e.refuses(a, b, a.flushOf(b, 800, 8), change, want)
	}}
}

// refuses posts a request that the peer must refuse without changing its memory.
func (e *Env) refuses(a, b *end, wr verbs.SendWR, change func(*verbs.SendWR, *end), want []verbs.WCStatus) {
	if change != nil {
		change(&wr, b)
	}
	a.post(wr)
	e.status("the request", a.sent(1)[0], want...)
	e.same("the memory", b.mr.Bytes(), make([]byte, b.mr.Len()))
}
