// Devices, ports, GIDs and partition keys: the attributes that a device reports.

package verbstest

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var deviceCases = []Case{
	{"device", "query", func(e *Env) {
		a := e.device()
		for _, limit := range []struct {
			name string
			n    int
		}{
			{"MaxQP", a.MaxQP}, {"MaxCQ", a.MaxCQ}, {"MaxMR", a.MaxMR}, {"MaxPD", a.MaxPD}, {"MaxAH", a.MaxAH},
			{"MaxQPWR", a.MaxQPWR}, {"MaxSGE", a.MaxSGE}, {"MaxSGERd", a.MaxSGERd}, {"MaxCQE", a.MaxCQE}, {"MaxPKeys", a.MaxPKeys},
			{"MaxQPRdAtom", a.MaxQPRdAtom}, {"MaxQPInitRdAtom", a.MaxQPInitRdAtom}, {"PhysPortCnt", a.PhysPortCnt},
		} {
			e.check(limit.n > 0, "%s is %d", limit.name, limit.n)
		}
		e.check(a.NodeGUID != 0 && a.SysImageGUID != 0, "GUIDs %#x, %#x", a.NodeGUID, a.SysImageGUID)
		e.check(a.MaxMRSize >= 1<<30, "MaxMRSize is %d", a.MaxMRSize)
		e.check(a.AtomicCap != verbs.AtomicNone, "the device has no atomics")
	}},
	{"device", "two queries agree", func(e *Env) {
		first, again := e.device(), e.device()
		e.check(first == again, "first %+v, then %+v", first, again)
	}},
	{"device", "listed by name", func(e *Env) {
		list, _ := verbs.Devices() // another provider may have no devices
		for _, info := range list {
			if info == e.Dev.Info() {
				return
			}
		}
		e.check(strings.Contains(e.Dev.Name(), ":"), "%v is not in the list %v", e.Dev.Info(), list)
	}},
	{"device", "open a name that does not exist", func(e *Env) {
		_, err := verbs.Open("no-such-device")
		e.fails(err, "Open", syscall.ENODEV)
		e.check(err != nil && strings.Contains(err.Error(), "no-such-device"), "the error does not name the device: %v", err)
	}},
	{"device", "close twice", func(e *Env) {
		e.ok(e.Dev.Close(), "Close")
		e.ok(e.Dev.Close(), "the second Close")
	}},
	{"device", "use after close", func(e *Env) {
		e.ok(e.Dev.Close(), "Close")
		_, err := e.Dev.Query()
		e.fails(err, "Query", net.ErrClosed)
		_, err = e.Dev.QueryPort(onePort)
		e.fails(err, "QueryPort", net.ErrClosed)
		_, err = e.Dev.AllocPD()
		e.fails(err, "AllocPD", net.ErrClosed)
		_, err = e.Dev.CreateCQ(verbs.CQInit{Depth: 1})
		e.fails(err, "CreateCQ", net.ErrClosed)
	}},
	{"device", "close with children", func(e *Env) {
		e.pd()
		e.cq(1)
		busy(e, e.Dev.Close(), "1 CQ", "1 PD", "1 completion channel")
	}},
	{"device", "queries from 8 goroutines", func(e *Env) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					_, err := e.Dev.Query()
					_, perr := e.Dev.QueryPort(onePort)
					_, gerr := e.Dev.QueryGIDTable()
					e.check(err == nil && perr == nil && gerr == nil, "%v, %v, %v", err, perr, gerr)
				}
			})
		}
		all.Wait()
	}},

	{"port", "query", func(e *Env) {
		p := e.port()
		e.check(p.State == verbs.PortActive, "state %v", p.State)
		e.check(p.ActiveMTU.Bytes() > 0 && p.MaxMTU >= p.ActiveMTU, "MTU %v of %v", p.ActiveMTU, p.MaxMTU)
		e.check(p.GIDTableLen > 0 && p.PKeyTableLen > 0, "tables of %d GIDs, %d keys", p.GIDTableLen, p.PKeyTableLen)
		e.check(p.MaxMsgSize >= 1<<20, "MaxMsgSize is %d", p.MaxMsgSize)
		e.check(p.LinkLayer != verbs.LinkUnspecified, "link layer %v", p.LinkLayer)
		e.check(p.ActiveWidth != 0 && p.ActiveSpeed != 0 && p.PhysState == 5, "%+v", p)
	}},
	{"port", "every port of the device", func(e *Env) {
		for n := range e.device().PhysPortCnt {
			_, err := e.Dev.QueryPort(uint8(n + 1))
			e.check(err == nil, "port %d: %v", n+1, err)
		}
	}},
	{"port", "0", func(e *Env) {
		_, err := e.Dev.QueryPort(0)
		e.fails(err, "QueryPort(0)", syscall.EINVAL)
	}},
	{"port", "9", func(e *Env) {
		_, err := e.Dev.QueryPort(9)
		e.fails(err, "QueryPort(9)", syscall.EINVAL)
	}},

	{"gid", "table", func(e *Env) {
		table, err := e.Dev.QueryGIDTable()
		e.ok(err, "QueryGIDTable")
		e.check(len(table) > 0, "the table is empty")
		seen := make(map[[2]int]bool)
		for _, g := range table {
			at := [2]int{int(g.Port), g.Index}
			port, err := e.Dev.QueryPort(g.Port)
			e.check(err == nil && g.Index >= 0 && g.Index < port.GIDTableLen, "%v is in slot %d of %d of port %d: %v", g, g.Index, port.GIDTableLen, g.Port, err)
			e.check(!g.GID.IsZero() && !seen[at], "%v at %v is empty or listed twice", g, at)
			seen[at] = true
			if port.LinkLayer == verbs.LinkEthernet {
				e.check(g.Type == verbs.GIDTypeRoCEv2 || g.Type == verbs.GIDTypeRoCEv1, "%v on Ethernet has type %v", g, g.Type)
				e.check(g.Netdev != "" && g.IfIndex > 0, "%v is of interface %d %q", g, g.IfIndex, g.Netdev)
			}
		}
	}},
	{"gid", "a GID is chosen", func(e *Env) {
		e.check(e.port().LinkLayer != verbs.LinkEthernet || !e.route().GRH.DGID.IsZero(), "route %v", e.route())
	}},
	{"gid", "an empty slot is not chosen", func(e *Env) {
		table, err := e.Dev.QueryGIDTable()
		e.ok(err, "QueryGIDTable")
		_, _, err = verbs.ChooseGID(table, verbs.GIDSelection{Index: new(250)})
		var ge *verbs.GIDError
		e.check(errors.As(err, &ge), "got %v", err)
	}},

	{"pkey", "index 0", func(e *Env) {
		key, err := e.Dev.QueryPKey(onePort, 0)
		e.check(err == nil && key&0x7fff == 0x7fff, "got %#x, %v", key, err)
	}},
	{"pkey", "index 99999", func(e *Env) {
		_, err := e.Dev.QueryPKey(onePort, 99999)
		e.fails(err, "QueryPKey") // libibverbs reads a file of sysfs, and returns ENOENT
	}},
	{"pkey", "index -1", func(e *Env) {
		_, err := e.Dev.QueryPKey(onePort, -1)
		e.fails(err, "QueryPKey")
	}},
	{"pkey", "port 9", func(e *Env) {
		_, err := e.Dev.QueryPKey(9, 0)
		e.fails(err, "QueryPKey")
	}},
}

// busy reports a fault unless a Close was refused because of children, and the error names
// them.
func busy(e *Env, err error, children ...string) {
	e.fails(err, "Close", syscall.EBUSY)
	for _, child := range children {
		e.check(err != nil && strings.Contains(err.Error(), child), "%v does not name %q", err, child)
	}
}

var pdCases = []Case{
	{"pd", "alloc", func(e *Env) { e.pd() }},
	{"pd", "64 of them", func(e *Env) {
		for range 64 {
			e.pd()
		}
	}},
	{"pd", "close twice", func(e *Env) {
		pd := e.pd()
		e.ok(pd.Close(), "Close")
		e.ok(pd.Close(), "the second Close")
	}},
	{"pd", "use after close", func(e *Env) {
		pd := e.pd()
		e.ok(pd.Close(), "Close")
		_, err := pd.AllocMR(4096, verbs.AccessLocalWrite)
		e.fails(err, "AllocMR", net.ErrClosed)
		_, err = pd.CreateAH(e.route())
		e.fails(err, "CreateAH", net.ErrClosed)
		cq := e.cq(1)
		_, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
		e.fails(err, "CreateQP", net.ErrClosed)
	}},
	{"pd", "close with a region", func(e *Env) {
		pd := e.pd()
		mr := e.mr(pd, 4096, verbs.AccessLocalWrite)
		busy(e, pd.Close(), "1 MR")
		e.ok(mr.Close(), "Close of the region")
		e.ok(pd.Close(), "Close")
	}},
	{"pd", "close with a queue pair", func(e *Env) {
		pd, cq := e.pd(), e.cq(8)
		qp := e.qp(pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()})
		busy(e, pd.Close(), "1 QP")
		e.ok(qp.Close(), "Close of the queue pair")
		e.ok(pd.Close(), "Close")
	}},
	{"pd", "close with an address handle", func(e *Env) {
		pd := e.pd()
		ah, err := pd.CreateAH(e.route())
		made(e, ah, err)
		busy(e, pd.Close(), "1 AH")
		e.ok(ah.Close(), "Close of the handle")
		e.ok(pd.Close(), "Close")
	}},
}

var ahCases = []Case{
	{"ah", "create", func(e *Env) {
		ah, err := e.pd().CreateAH(e.route())
		made(e, ah, err)
	}},
	{"ah", "64 of them", func(e *Env) {
		pd := e.pd()
		for range 64 {
			ah, err := pd.CreateAH(e.route())
			made(e, ah, err)
		}
	}},
	{"ah", "close twice", func(e *Env) {
		ah, err := e.pd().CreateAH(e.route())
		made(e, ah, err)
		e.ok(ah.Close(), "Close")
		e.ok(ah.Close(), "the second Close")
	}},
	{"ah", "a closed one cannot be posted with", func(e *Env) {
		a, b := e.ud()
		ah, err := a.pd.CreateAH(e.route())
		made(e, ah, err)
		e.ok(ah.Close(), "Close")
		wr := a.to(verbs.SendWR{Opcode: verbs.OpSend, SGL: a.sge(0, 8)}, b)
		wr.AH = ah
		e.refusedAt(a.qp.PostSend([]verbs.SendWR{wr}), 0, syscall.EINVAL)
		works(a, b)
	}},
	{"ah", "under a context", func(e *Env) {
		pd := e.pd()
		ended, cancel := context.WithCancel(e.Ctx)
		ah, err := pd.CreateAHContext(ended, e.route())
		made(e, ah, err)
		cancel()
		_, err = pd.CreateAHContext(ended, e.route())
		e.fails(err, "CreateAHContext after its end", context.Canceled)
	}},
	badAH("port 0", func(a *verbs.AHAttr) { a.PortNum = 0 }),
	badAH("port 9", func(a *verbs.AHAttr) { a.PortNum = 9 }),
	badAH("not global on Ethernet", func(a *verbs.AHAttr) { a.IsGlobal = false }),
	badAH("empty GID slot", func(a *verbs.AHAttr) { a.GRH.SGIDIndex = 250 }),
	badAH("GIDs of two families", func(a *verbs.AHAttr) { a.GRH.DGID = otherFamily(a.GRH.DGID) }),
}

// otherFamily returns an address of the IP family that g is not of.
func otherFamily(g verbs.GID) verbs.GID {
	if g.Addr().Is4() {
		return qpstate.GID{0: 0xfd, 1: 0x99, 15: 1}
	}
	return qpstate.GID{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}
}

// badAH is a case of an address handle that must be refused. Any errno will do, because it may
// come from the device or from the system's routing.
func badAH(name string, spoil func(*verbs.AHAttr)) Case {
	return Case{"ah", name + " is refused", func(e *Env) {
		attr := e.route()
		spoil(&attr)
		ah, err := e.pd().CreateAH(attr)
		e.fails(err, "CreateAH "+attr.String())
		if err == nil {
			e.Cleanup(ah.Close)
		}
	}}
}
