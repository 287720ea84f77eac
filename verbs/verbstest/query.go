// Attributes of a device beyond its limits, and single entries of its tables.

package verbstest

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
	"github.com/rawverbs/rawverbs/verbs"
)

var queryCases = []Case{
	{"device", "query_device_ex", func(e *Env) {
		ex, err := e.Dev.QueryEx()
		e.ok(err, "QueryEx")
		e.check(ex.DeviceAttr == e.device(), "the limits differ: %+v and %+v", ex.DeviceAttr, e.device())
		e.check(ex.Caps&0xffffffff == ex.CapFlags, "capabilities %v and %v", ex.Caps, ex.CapFlags)
		e.check((ex.CompletionTimestampMask != 0) == (ex.HCACoreClock != 0), "timestamps have bits %#x and run at %d kHz", ex.CompletionTimestampMask, ex.HCACoreClock)
		e.check(ex.ODP.Supported == (ex.ODP.RC|ex.ODP.UD|ex.ODP.UC != 0), "ODP %+v", ex.ODP)
	}},
	{"device", "query_device_ex after close", func(e *Env) {
		e.ok(e.Dev.Close(), "Close")
		_, err := e.Dev.QueryEx()
		e.fails(err, "QueryEx", net.ErrClosed)
		_, err = e.Dev.QueryGID(onePort, 0)
		e.fails(err, "QueryGID", net.ErrClosed)
		_, err = e.Dev.QueryCounters(onePort)
		e.fails(err, "QueryCounters", net.ErrClosed)
	}},
	{"device", "windows as the capabilities say", func(e *Env) {
		caps, pd := e.device().CapFlags, e.pd()
		for t, has := range map[verbs.MWType]bool{
			verbs.MWType1: caps&verbs.CapMemWindow != 0,
			verbs.MWType2: caps&(verbs.CapMemWindowType2A|verbs.CapMemWindowType2B) != 0,
		} {
			mw, err := pd.AllocMW(t)
			if err == nil {
				e.Cleanup(mw.Close)
			}
			e.check(has == (err == nil), "AllocMW of %v: %v, but the capabilities are %v", t, err, caps)
		}
	}},
	{"device", "node, transport and number", func(e *Env) {
		info := e.Dev.Info()
		e.check(info.NodeType == verbs.NodeCA || info.NodeType == verbs.NodeRNIC, "%v", info.NodeType)
		e.check(info.NodeType.String() == "IBV_NODE_CA" || info.NodeType.String() == "IBV_NODE_RNIC", "%v", info.NodeType)
		e.check(info.Transport.String() == "IBV_TRANSPORT_IB" || info.Transport.String() == "IBV_TRANSPORT_IWARP", "%v", info.Transport)
		e.check(info.Index >= -1, "index %d", info.Index)
	}},
	{"device", "the raw clock runs", func(e *Env) {
		before, err := e.Dev.QueryRawClock()
		e.ok(err, "QueryRawClock")
		time.Sleep(time.Millisecond) // simulated time passes only so
		after, err := e.Dev.QueryRawClock()
		e.ok(err, "QueryRawClock")
		e.check(after > before, "the clock was %d, then %d", before, after)
	}},

	{"port", "speed and width", func(e *Env) {
		p := e.port()
		e.check(p.Lanes() > 0 && p.GbitPerSecond() >= 2.5, "%d lanes, %g Gbit/s (codes %d, %d)", p.Lanes(), p.GbitPerSecond(), p.ActiveWidth, p.ActiveSpeed)
	}},
	{"port", "counters count", func(e *Env) {
		before, err := e.Dev.QueryCounters(onePort)
		e.ok(err, "QueryCounters")
		e.check(len(before) > 5, "the counters are %v", before)
		works(e.rc())
		after, err := e.Dev.QueryCounters(onePort)
		e.ok(err, "QueryCounters")
		more := 0
		for name, n := range after {
			if n > before[name] {
				more++
			}
		}
		e.check(more > 0, "messages did not change the counters: %v", after)
	}},
	{"port", "counters of port 9", func(e *Env) {
		_, err := e.Dev.QueryCounters(9)
		e.fails(err, "QueryCounters", syscall.EINVAL)
	}},

	{"gid", "each slot by its index", func(e *Env) {
		table, err := e.Dev.QueryGIDTable()
		e.ok(err, "QueryGIDTable")
		for _, want := range table {
			got, err := e.Dev.QueryGID(want.Port, want.Index)
			e.check(err == nil && got == want, "slot %d of port %d: %v, %v, want %v", want.Index, want.Port, got, err, want)
		}
	}},
	{"gid", "an empty slot", func(e *Env) {
		table, err := e.Dev.QueryGIDTable()
		e.ok(err, "QueryGIDTable")
		filled := make(map[int]bool)
		for _, g := range table {
			filled[g.Index] = g.Port == onePort || filled[g.Index]
		}
		for i := range e.port().GIDTableLen {
			if !filled[i] {
				_, err := e.Dev.QueryGID(onePort, i)
				e.fails(err, fmt.Sprint("QueryGID of ", i), errno.NoData)
				return
			}
		}
	}},
	badGID("index -1", onePort, func(int) int { return -1 }),
	badGID("the index after the last", onePort, func(n int) int { return n }),
	badGID("port 0", 0, func(int) int { return 0 }),
	badGID("port 9", 9, func(int) int { return 0 }),

	{"pkey", "the whole table", func(e *Env) {
		for i := range e.port().PKeyTableLen {
			_, err := e.Dev.QueryPKey(onePort, i)
			e.check(err == nil, "index %d: %v", i, err)
		}
	}},
	{"pkey", "found by its value", func(e *Env) {
		key, err := e.Dev.QueryPKey(onePort, 0)
		e.ok(err, "QueryPKey")
		for _, k := range []uint16{key, key ^ 0x8000} {
			i, err := e.Dev.PKeyIndex(onePort, k)
			e.check(err == nil && i == 0, "key %#x is at %d, %v", k, i, err)
		}
	}},
	{"pkey", "a key that is not in the table", func(e *Env) {
		for _, k := range []uint16{0x1234, 0, 0x8000} {
			_, err := e.Dev.PKeyIndex(onePort, k)
			e.fails(err, fmt.Sprintf("PKeyIndex of %#x", k), syscall.ENOENT)
		}
		_, err := e.Dev.PKeyIndex(9, 0xffff)
		e.fails(err, "PKeyIndex on port 9", syscall.EINVAL)
	}},

	{"qp", "whether data arrives in order", func(e *Env) {
		qp := e.plainQP(verbs.RC)
		_, err := qp.DataInOrder(verbs.OpRDMAWrite)
		e.ok(err, "DataInOrder")
	}},
	{"qp", "options of enhanced connection establishment", func(e *Env) {
		qp := e.plainQP(verbs.RC)
		own, err := qp.QueryECE()
		e.ok(err, "QueryECE")
		e.ok(qp.SetECE(own), "SetECE")
	}},
	{"qp", "options of an unknown vendor", func(e *Env) {
		e.fails(e.plainQP(verbs.RC).SetECE(verbs.ECE{VendorID: 0xdeadbeef, Options: 1}), "SetECE", syscall.EINVAL, syscall.EOPNOTSUPP)
	}},
}

func badGID(name string, port uint8, index func(slots int) int) Case {
	return Case{"gid", name, func(e *Env) {
		_, err := e.Dev.QueryGID(port, index(e.port().GIDTableLen))
		e.fails(err, "QueryGID", syscall.EINVAL)
	}}
}
