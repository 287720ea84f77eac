// Memory regions: registration, keys, closing.

package verbstest

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var mrCases = []Case{
	goodMR("no rights", 0),
	goodMR("LOCAL_WRITE", verbs.AccessLocalWrite),
	goodMR("REMOTE_READ alone", verbs.AccessRemoteRead),
	goodMR("LOCAL_WRITE and REMOTE_WRITE", verbs.AccessLocalWrite|verbs.AccessRemoteWrite),
	goodMR("LOCAL_WRITE and REMOTE_ATOMIC", verbs.AccessLocalWrite|verbs.AccessRemoteAtomic),
	goodMR("everything", everything),
	badMR("REMOTE_WRITE alone", verbs.AccessRemoteWrite),
	badMR("REMOTE_ATOMIC alone", verbs.AccessRemoteAtomic),
	badMR("REMOTE_READ and REMOTE_WRITE", verbs.AccessRemoteRead|verbs.AccessRemoteWrite),
	badMR("a right that does not exist", 1<<18),

	{"mr", "0 bytes are refused", func(e *Env) {
		pd := e.pd()
		_, err := pd.AllocMR(0, verbs.AccessLocalWrite)
		e.fails(err, "AllocMR", syscall.EINVAL)
		_, err = pd.RegMR(nil, verbs.AccessLocalWrite)
		e.fails(err, "RegMR", syscall.EINVAL)
		_, err = pd.AllocMR(-1, verbs.AccessLocalWrite)
		e.fails(err, "AllocMR", syscall.EINVAL)
	}},
	{"mr", "sizes", func(e *Env) {
		pd := e.pd()
		for _, n := range []int{1, 7, 4095, 4096, 4097, 1 << 20, 16 << 20} {
			mr := e.mr(pd, n, everything)
			e.check(mr.Len() == n && len(mr.Bytes()) == n && mr.Addr()%4096 == 0, "%v for %d bytes", mr, n)
			for _, b := range []int{0, n / 2, n - 1} {
				e.check(mr.Bytes()[b] == 0, "byte %d is not zero", b)
			}
		}
	}},
	{"mr", "keys differ", func(e *Env) {
		pd := e.pd()
		lkeys, rkeys := make(map[uint32]bool), make(map[uint32]bool)
		for range 64 {
			mr := e.mr(pd, 4096, everything)
			e.check(!lkeys[mr.LKey()] && !rkeys[mr.RKey()], "%v has the keys of another region", mr)
			lkeys[mr.LKey()], rkeys[mr.RKey()] = true, true
		}
	}},
	{"mr", "the same memory twice", func(e *Env) {
		pd, buf := e.pd(), make([]byte, 8192)
		one, err := pd.RegMR(buf, everything)
		made(e, one, err)
		two, err := pd.RegMR(buf, verbs.AccessLocalWrite)
		made(e, two, err)
		e.check(one.LKey() != two.LKey() && one.Addr() == two.Addr(), "%v and %v", one, two)
	}},
	{"mr", "close twice", func(e *Env) {
		mr := e.mr(e.pd(), 4096, everything)
		e.ok(mr.Close(), "Close")
		e.ok(mr.Close(), "the second Close")
	}},
	{"mr", "a closed region cannot be sent from", func(e *Env) {
		a, b := e.rc()
		sge := a.sge(0, 8)
		e.ok(a.mr.Close(), "Close")
		b.receives(1, 0, 64)
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: sge})
		e.status("the send", a.sent(1)[0], verbs.WCLocProtErr)
	}},
	{"mr", "a closed region cannot be written to", func(e *Env) {
		a, b := e.rc()
		wr := a.remote(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, 8)}, b, 0)
		e.ok(b.mr.Close(), "Close")
		a.signaled(wr)
		e.status("the WRITE", a.sent(1)[0], verbs.WCRemAccessErr)
	}},
	{"mr", "Go's own memory carries data", func(e *Env) {
		a, b := e.rc()
		buf := make([]byte, 3*4096+100)
		mr, err := b.pd.RegMR(buf[50:], everything) // at an unaligned address
		made(e, mr, err)
		want := a.fill(0, 3*4096)
		a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, len(want)), RemoteAddr: mr.Addr() + 7, RKey: mr.RKey()})
		a.done()
		runtime.GC()
		e.same("the memory", buf[57:57+len(want)], want)
		b.receive(1, mr.SGE(7, 1000))
		a.signaled(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(1, 999)})
		a.done()
		b.got()
		e.same("the message", buf[57:57+999], want[1:1000])
		runtime.KeepAlive(buf)
	}},
	{"mr", "a part of an object that holds pointers", func(e *Env) {
		a, b := e.rc()
		object := &struct {
			buf  [100]byte
			next *end
		}{next: b}
		mr, err := b.pd.RegMR(object.buf[:], everything)
		made(e, mr, err)
		want := a.fill(0, len(object.buf))
		a.signaled(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: a.sge(0, len(want)), RemoteAddr: mr.Addr(), RKey: mr.RKey()})
		a.done()
		e.same("the memory", object.buf[:], want)
		e.check(object.next == b, "the pointer next to the memory has changed")
	}},
	{"mr", "Close of an idle region while others are in use", func(e *Env) {
		a, b := e.rc()
		e.ok(e.mr(a.pd, 4096, everything).Close(), "Close")
		works(a, b)
	}},
	{"mr", "LOCAL_WRITE as a queue pair's right is harmless", func(e *Env) {
		works(e.pair(wiring{tune: func(a, b *verbs.QPAttr) {
			a.Access |= verbs.AccessLocalWrite
			b.Access |= verbs.AccessLocalWrite
		}}))
	}},
	{"mr", "many registrations", func(e *Env) {
		pd := e.pd()
		for range 200 {
			mr, err := pd.AllocMR(4096, everything)
			e.ok(err, "AllocMR")
			e.ok(mr.Close(), "Close")
		}
	}},
}

func goodMR(name string, access verbs.Access) Case {
	return Case{"mr", name, func(e *Env) {
		pd := e.pd()
		mr := e.mr(pd, 4096, access)
		e.check(mr.Access() == access && mr.LKey() != 0, "%v", mr)
		if access&remoteEverything != 0 {
			e.check(mr.RKey() != 0, "%v has no rkey", mr)
		}
		onHeap, err := pd.RegMR(make([]byte, 100), access)
		made(e, onHeap, err)
	}}
}

func badMR(name string, access qpstate.Access) Case {
	return Case{"mr", name + " is refused", func(e *Env) {
		mr, err := e.pd().AllocMR(4096, access)
		e.fails(err, fmt.Sprintf("AllocMR with %v", access), syscall.EINVAL, syscall.EOPNOTSUPP)
		if err == nil {
			e.Cleanup(mr.Close)
		}
	}}
}
