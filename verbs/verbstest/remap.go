// Special regions: chosen addresses, changes in place (rereg), memory of another driver
// (DMA-BUF), on-demand paging.

package verbstest

import (
	"bytes"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/verbs"
)

var remapCases = []Case{
	{"mr", "an address chosen by the program", func(e *Env) {
		a, b := e.rc()
		const at = 0x7000_0000_0000
		mr, err := b.pd.AllocMRWith(8192, everything, verbs.MROptions{IOVA: at})
		made(e, mr, err)
		e.check(mr.Addr() == at && mr.SGE(4096, 10).Addr == at+4096, "%v", mr)
		carriesAt(a, b, mr, at)
	}},
	{"mr", "ZERO_BASED", func(e *Env) {
		a, b := e.rc()
		mr := e.mr(b.pd, 8192, everything|verbs.AccessZeroBased)
		e.check(mr.Addr() == 0, "%v", mr)
		carriesAt(a, b, mr, 0)
	}},
	{"mr", "RELAXED_ORDERING", func(e *Env) {
		a, b := e.rc()
		mr := e.mr(b.pd, 8192, everything|verbs.AccessRelaxedOrdering)
		carriesAt(a, b, mr, mr.Addr())
	}},
	{"mr", "ON_DEMAND as the device reports", func(e *Env) {
		ex, err := e.Dev.QueryEx()
		e.ok(err, "QueryEx")
		a, b := e.rc()
		mr, err := b.pd.AllocMR(8192, everything|verbs.AccessOnDemand)
		if !ex.ODP.Supported {
			e.fails(err, "AllocMR", syscall.EINVAL, syscall.EOPNOTSUPP)
			return
		}
		made(e, mr, err)
		e.check(ex.ODP.RC&verbs.ODPWrite != 0, "ODP on RC supports only %v", ex.ODP.RC)
		carriesAt(a, b, mr, mr.Addr())
	}},
	{"mr", "a null region reads as zeros and keeps nothing", func(e *Env) {
		a, b := e.rc()
		from, err := a.pd.AllocNullMR()
		made(e, from, err)
		to, err := b.pd.AllocNullMR()
		made(e, to, err)
		e.fails(a.pd.Close(), "Close of the domain", syscall.EBUSY)
		want := append(append(append([]byte{}, a.fill(0, 8)...), make([]byte, 6000)...), a.fill(8, 8)...)
		b.fill(0, 8192)
		b.receive(1, b.mr.SGE(0, len(want)))
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 8), from.SGE(77, 6000), a.mr.SGE(8, 8)}})
		a.done()
		b.got()
		e.check(bytes.Equal(b.bytes(0, len(want)), want), "zeros did not arrive")
		b.receive(2, to.SGE(1<<30, 6000), b.mr.SGE(0, 100))
		want = a.fill(0, 6100)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 6100)})
		a.done()
		b.got()
		e.check(bytes.Equal(b.bytes(0, 100), want[6000:]), "the bytes after the null region's did not arrive")
	}},
	{"mr", "huge pages, or an error that says how to get them", func(e *Env) {
		pd := e.pd()
		mr, err := pd.AllocMRWith(4096, everything, verbs.MROptions{HugePages: true})
		if err != nil {
			e.fails(err, "AllocMR", syscall.ENOMEM)
			return
		}
		made(e, mr, err)
		e.check(mr.Len() == 2<<20, "%v", mr)
		mr.Bytes()[mr.Len()-1] = 1
	}},
	{"mr", "huge pages of the caller's memory are refused", func(e *Env) {
		_, err := e.pd().RegMRWith(make([]byte, 64), everything, verbs.MROptions{HugePages: true})
		e.fails(err, "RegMR", syscall.EINVAL)
	}},
	{"mr", "a slice is registered up to its length", func(e *Env) {
		a, b := e.rc()
		buf := make([]byte, 100, 200)
		mr, err := b.pd.RegMR(buf, everything)
		made(e, mr, err)
		e.check(mr.Len() == 100 && cap(mr.Bytes()) == 100, "%v", mr)
		a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8), RemoteAddr: mr.Addr() + 93, RKey: mr.RKey()})
		e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
		runtime.KeepAlive(buf)
	}},

	{"mr", "rereg: other rights", func(e *Env) {
		a, b := e.rc()
		opens(a, b, 0, b.mr.RKey())
		e.ok(b.mr.Rereg(verbs.Rereg{Flags: verbs.ReregAccess, Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead}), "Rereg")
		e.check(b.mr.Access() == verbs.AccessLocalWrite|verbs.AccessRemoteRead, "%v", b.mr)
		want := b.fill(0, 8)
		a.signaled(a.remote(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: a.sge(0, 8)}, b, 0))
		a.done()
		e.same("the READ", a.bytes(0, 8), want)
		closed(a, b, 0, b.mr.RKey())
	}},
	{"mr", "rereg: other memory", func(e *Env) {
		a, b := e.rc()
		buf := make([]byte, 5000)
		e.ok(b.mr.Rereg(verbs.Rereg{Flags: verbs.ReregTranslation, Buf: buf}), "Rereg")
		e.check(b.mr.Len() == 5000 && b.mr.Addr() == uint64(uintptr(unsafe.Pointer(&buf[0]))), "%v", b.mr)
		runtime.GC()
		opens(a, b, 4992, b.mr.RKey())
		e.check(buf[4999] == b.mr.Bytes()[4999], "the region does not use the new memory")
		runtime.KeepAlive(buf)
	}},
	{"mr", "rereg: other memory, with or without a chosen address", func(e *Env) {
		a, b := e.rc()
		const at = 0x7000_0000_0000
		mr, err := b.pd.AllocMRWith(8192, everything, verbs.MROptions{IOVA: at})
		made(e, mr, err)
		old, next := mr.Bytes(), e.mr(b.pd, 8192, everything).Bytes() // two pages, like the chosen address
		if err := mr.Rereg(verbs.Rereg{Flags: verbs.ReregTranslation, Buf: next}); err != nil {
			e.fails(err, "Rereg", syscall.EOPNOTSUPP)
			next = old
		}
		e.check(mr.Addr() == at && &mr.Bytes()[0] == &next[0], "%v", mr)
		carriesAt(a, b, mr, at)
	}},
	{"mr", "rereg: another domain", func(e *Env) {
		a, b := e.rc()
		old, next := b.pd, e.pd()
		mr := e.mr(old, 4096, everything)
		e.ok(mr.Rereg(verbs.Rereg{Flags: verbs.ReregPD, PD: next}), "Rereg")
		busy(e, next.Close(), "1 MR")
		a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8), RemoteAddr: mr.Addr(), RKey: mr.RKey()})
		e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
		e.ok(mr.Close(), "Close")
		e.ok(next.Close(), "Close of the domain")
	}},
	{"mr", "rereg: bad values are refused and change nothing", func(e *Env) {
		a, b := e.rc()
		for _, r := range []verbs.Rereg{
			{}, {Flags: 1 << 7}, {Flags: verbs.ReregPD}, {Flags: verbs.ReregTranslation},
			{Flags: verbs.ReregAccess, Access: verbs.AccessRemoteWrite},
		} {
			if r.Flags != verbs.ReregAccess || e.reregs(b.mr) {
				e.fails(b.mr.Rereg(r), "Rereg of "+r.Flags.String(), syscall.EINVAL, syscall.EOPNOTSUPP)
			}
		}
		opens(a, b, 0, b.mr.RKey())
	}},
	{"mr", "rereg: of a closed region", func(e *Env) {
		mr := e.mr(e.pd(), 4096, everything)
		e.ok(mr.Close(), "Close")
		e.check(mr.Rereg(verbs.Rereg{Flags: verbs.ReregAccess, Access: everything}) != nil, "Rereg of a closed region succeeded")
	}},

	{"mr", "dmabuf: another driver's memory", func(e *Env) {
		a, b := e.rc()
		fd, memory := e.dmabuf(16384)
		at, _ := unix.Seek(fd, 0, unix.SEEK_CUR) // a DMA-BUF may not support seeking
		mr, err := b.pd.RegDmabufMR(fd, 4096, 8192, 0x10000, everything)
		made(e, mr, err)
		now, _ := unix.Seek(fd, 0, unix.SEEK_CUR)
		e.check(now == at, "the descriptor's offset changed from %d to %d", at, now)
		e.check(mr.Addr() == 0x10000 && mr.Len() == 8192 && mr.Bytes() == nil, "%v", mr)
		want := a.fill(0, 5000)
		a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 5000), RemoteAddr: 0x10000 + 100, RKey: mr.RKey()})
		a.done()
		e.same("the memory", memory[4096+100:4096+5100], want)
	}},
	{"mr", "dmabuf: other descriptors are refused", func(e *Env) {
		pd := e.pd()
		_, err := pd.RegDmabufMR(-1, 0, 4096, 0, everything)
		e.fails(err, "RegDmabufMR of no descriptor", syscall.EBADF, syscall.EINVAL, syscall.EOPNOTSUPP)
		fd, _ := e.dmabuf(8192)
		for _, n := range []int{-1, 0, 8193} {
			_, err = pd.RegDmabufMR(fd, 0, n, 0, everything)
			e.fails(err, "RegDmabufMR of a wrong length", syscall.EINVAL, syscall.EOPNOTSUPP)
		}
	}},

	{"mr", "advice", func(e *Env) {
		pd := e.pd()
		mr := e.mr(pd, 64<<10, everything|verbs.AccessOnDemand)
		for _, advice := range []verbs.MRAdvice{verbs.AdvisePrefetch, verbs.AdvisePrefetchWrite, verbs.AdvisePrefetchNoFault} {
			e.ok(pd.AdviseMR(advice, verbs.AdviseFlush, []verbs.SGE{mr.SGE(100, 10000), mr.SGE(20000, 1)}), advice.String())
		}
		bad := mr.SGE(0, 8)
		bad.LKey ^= 0x5555
		e.check(pd.AdviseMR(verbs.AdvisePrefetch, 0, []verbs.SGE{bad}) != nil, "advice for unregistered memory was accepted")
		e.check(pd.AdviseMR(verbs.AdvisePrefetch, 0, nil) != nil, "advice for an empty list was accepted")
	}},
}

// reregs reports whether the device supports rereg. If it does not, libibverbs may leave the
// region in a state in which it must be closed.
func (e *Env) reregs(mr *verbs.MR) bool {
	return mr.Rereg(verbs.Rereg{Flags: verbs.ReregAccess, Access: mr.Access()}) == nil
}

// carriesAt writes to b's region under its addresses, and receives there.
func carriesAt(a, b *end, mr *verbs.MR, at uint64) {
	e := a.e
	want := a.fill(0, 5000)
	a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 5000), RemoteAddr: at + 100, RKey: mr.RKey()})
	a.done()
	e.same("the memory", mr.Bytes()[100:5100], want)
	b.receive(1, mr.SGE(6000, 100))
	a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(7, 100)})
	a.done()
	b.got()
	e.same("the message", mr.Bytes()[6000:6100], want[7:107])
}
