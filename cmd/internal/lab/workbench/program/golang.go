// Actions in Go, with package verbs.

package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/qpstate"
)

type goWriter struct{}

// v is the name of a host's object: clientQp.
func (goWriter) v(h *Host, name string) string { return h.Name + title(name) }

func title(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func (goWriter) psn(h *Host, qp string) string { return h.Name + title(qp) + "PSN" }

func (goWriter) known(h *Host, qp string) string { return h.Name + "Knows" + title(h.toldName(qp)) }

func (goWriter) knownMemory(h *Host, mr string) string {
	return h.Name + "Knows" + title(mr) + "Memory"
}

func (goWriter) state(name string) string { return goNames[name] }

func (goWriter) access(names []string) string { return goFlags(names) }

func (goWriter) mtu(n int) string { return fmt.Sprintf("verbs.MTU%d", n) }

func (goWriter) boolean(b bool) string { return fmt.Sprint(b) }

func (goWriter) comment(text string) string { return "// " + text }

// goNames are constants of package verbs by the names of C.
var goNames = map[string]string{
	"LOCAL_WRITE": "verbs.AccessLocalWrite", "REMOTE_WRITE": "verbs.AccessRemoteWrite", "REMOTE_READ": "verbs.AccessRemoteRead",
	"REMOTE_ATOMIC": "verbs.AccessRemoteAtomic", "MW_BIND": "verbs.AccessMWBind", "ZERO_BASED": "verbs.AccessZeroBased",
	"ON_DEMAND": "verbs.AccessOnDemand", "HUGETLB": "verbs.AccessHugeTLB", "FLUSH_GLOBAL": "verbs.AccessFlushGlobal",
	"FLUSH_PERSISTENT": "verbs.AccessFlushPersistent", "RELAXED_ORDERING": "verbs.AccessRelaxedOrdering",
	"FENCE": "verbs.SendFence", "SIGNALED": "verbs.SendSignaled", "SOLICITED": "verbs.SendSolicited", "INLINE": "verbs.SendInline",
	"RESET": "qpstate.Reset", "INIT": "qpstate.Init", "RTR": "qpstate.RTR", "RTS": "qpstate.RTS", "SQD": "qpstate.SQD", "SQE": "qpstate.SQE",
	"ERR": "qpstate.Error", "UNKNOWN": "qpstate.Unknown",
	"RDMA_WRITE": "verbs.OpRDMAWrite", "RDMA_WRITE_WITH_IMM": "verbs.OpRDMAWriteWithImm", "SEND": "verbs.OpSend", "SEND_WITH_IMM": "verbs.OpSendWithImm",
	"RDMA_READ": "verbs.OpRDMARead", "ATOMIC_CMP_AND_SWP": "verbs.OpAtomicCmpAndSwp", "ATOMIC_FETCH_AND_ADD": "verbs.OpAtomicFetchAndAdd",
	"LOCAL_INV": "verbs.OpLocalInv", "BIND_MW": "verbs.OpBindMW", "SEND_WITH_INV": "verbs.OpSendWithInvalidate", "TSO": "verbs.OpTSO",
	"FLUSH": "verbs.OpFlush", "ATOMIC_WRITE": "verbs.OpAtomicWrite", "": "0",
	"MAX_WR": "verbs.SRQMaxWR", "LIMIT": "verbs.SRQLimit",
}

// goMasks are the constants of package qpstate for the bits of the mask.
var goMasks = map[string]string{
	"STATE": "State", "CUR_STATE": "CurState", "EN_SQD_ASYNC_NOTIFY": "EnSQDAsyncNotify", "ACCESS_FLAGS": "AccessFlags", "PKEY_INDEX": "PKeyIndex",
	"PORT": "Port", "QKEY": "QKey", "AV": "AV", "PATH_MTU": "PathMTU", "TIMEOUT": "Timeout", "RETRY_CNT": "RetryCnt", "RNR_RETRY": "RNRRetry",
	"RQ_PSN": "RQPSN", "MAX_QP_RD_ATOMIC": "MaxRdAtomic", "ALT_PATH": "AltPath", "MIN_RNR_TIMER": "MinRNRTimer", "SQ_PSN": "SQPSN",
	"MAX_DEST_RD_ATOMIC": "MaxDestRdAtomic", "PATH_MIG_STATE": "PathMigState", "CAP": "Cap", "DEST_QPN": "DestQPN", "RATE_LIMIT": "RateLimit",
}

// goFields are the fields of qpstate.Attr whose names are not those of the mask's constants.
var goFields = map[string]string{"Port": "PortNum", "AV": "AH", "AccessFlags": "Access"}

func goFlags(names []string) string {
	return flags(names, func(n string) string { return goNames[n] })
}

func goMask(names []string) string {
	return flags(names, func(n string) string { return "qpstate.Mask" + goMasks[n] })
}

func errnoGo(r *Result) string {
	if r.Errno == "" {
		return "nil"
	}
	return "syscall." + r.Errno
}

func (goWriter) returned(l *lines, h *Host, call string, r *Result) {
	l.check(fmt.Sprintf("returned(%q, err, %s)", h.Name+": "+call, errnoGo(r)))
}

func (g goWriter) object(l *lines, h *Host, a *action.Action, r *Result) {
	v, call := g.v(h, a.Name), ""
	dev := h.Name + ".dev"
	switch a.Do {
	case "alloc_pd":
		call = dev + ".AllocPD()"
	case "reg_mr":
		call = fmt.Sprintf("%s.AllocMR(%d, %s)", g.v(h, a.PD), a.Length, goFlags(a.Access))
	case "create_cq":
		call = fmt.Sprintf("%s.CreateCQ(verbs.CQInit{Depth: %d})", dev, a.Depth)
	case "create_srq":
		call = fmt.Sprintf("%s.CreateSRQ(verbs.SRQInit{MaxWR: %d, MaxSGE: %d})", g.v(h, a.PD), a.MaxWR, a.MaxSGE)
	case "create_qp":
		more := ""
		if a.SRQ != "" {
			more += ", SRQ: " + g.v(h, a.SRQ)
		}
		if a.SigAll {
			more += ", SigAll: true"
		}
		call = fmt.Sprintf("%s.CreateQP(verbs.QPInit{Type: verbs.%s, SendCQ: %s, RecvCQ: %s%s,\n\tCap: verbs.QPCap{MaxSendWR: %d, MaxRecvWR: %d, MaxSendSGE: %d, MaxRecvSGE: %d, MaxInlineData: %d}})",
			g.v(h, a.PD), a.Type, g.v(h, a.SendCQ), g.v(h, a.RecvCQ), more, a.Cap.SendWR, a.Cap.RecvWR, a.Cap.SendSGE, a.Cap.RecvSGE, a.Cap.Inline)
	case "create_ah":
		call = fmt.Sprintf("%s.CreateAH(%s)", g.v(h, a.PD), g.address(h, a.AV, a.Peer))
	case "alloc_mw":
		call = fmt.Sprintf("%s.AllocMW(verbs.MWType%s)", g.v(h, a.PD), a.Type)
	}
	l.add(strings.Split(fmt.Sprintf("%s, err = %s", v, call), "\n")...)
	g.returned(l, h, strings.TrimPrefix(a.Do, "create_"), r)
	if a.Do == "reg_mr" && r.Errno == "" {
		l.check(fmt.Sprintf("%sLKey = %s.LKey()", v, v))
	}
}

// address is an AHAttr.
func (g goWriter) address(h *Host, av *action.AV, peer string) string {
	gid := fmt.Sprintf("gidOf(%q)", av.GID)
	if av.FromPeer() {
		gid = g.known(h, peer) + ".gid"
	}
	if av.SGIDIndex == nil && av.Port == nil && av.HopLimit == nil && av.TrafficClass == 0 && av.FlowLabel == 0 && !av.Local {
		return fmt.Sprintf("%s.path(%s)", h.Name, gid)
	}
	index, port, hops := path(av, fmt.Sprintf("uint8(%s.gid.Index)", h.Name))
	return fmt.Sprintf("verbs.AHAttr{IsGlobal: %v, PortNum: %s, GRH: verbs.GRH{DGID: %s, SGIDIndex: %s, HopLimit: %d, TrafficClass: %d, FlowLabel: %d}}",
		!av.Local, port, gid, index, hops, av.TrafficClass, av.FlowLabel)
}

func (g goWriter) closing(l *lines, h *Host, a *action.Action, o *Object, r *Result) {
	if r.Asleep {
		g.ackEvents(l, h, a, r)
		return
	}
	l.add(fmt.Sprintf("err = %s.Close()", g.v(h, a.Name)))
	g.returned(l, h, o.Verb, r)
}

func (g goWriter) modify(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("err = %s.Modify(&verbs.QPAttr{", g.v(h, a.Name)))
	for _, bit := range (action.AllBits & codedBits).Bits() {
		if raw, ok := a.Attr[bit.Name()]; ok {
			name := goMasks[bit.Name()]
			if other, ok := goFields[name]; ok {
				name = other
			}
			l.add(fmt.Sprintf("\t%s: %s,", name, value(g, h, a, bit, raw)))
		}
	}
	l.add("}, " + goMask(a.Mask) + ")")
	g.returned(l, h, "ibv_modify_qp", r)
}

func (g goWriter) query(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("_, err = %s.Query(%s)", g.v(h, a.Name), goMask(queried)))
	g.returned(l, h, "ibv_query_qp", r)
}

func (g goWriter) modifySRQ(l *lines, h *Host, a *action.Action, r *Result) {
	mask, limit := srqChange(a)
	l.add(fmt.Sprintf("err = %s.Modify(verbs.SRQAttr{MaxWR: %d, Limit: %d}, %s)", g.v(h, a.Name), a.MaxWR, limit, goFlags(mask)))
	g.returned(l, h, "ibv_modify_srq", r)
}

func (g goWriter) tellEndpoint(l *lines, h *Host, name string, t Endpoint) {
	v := g.v(h, name)
	l.check(fmt.Sprintf("%sPSN = %#x", v, t.PSN))
	l.add(fmt.Sprintf("%sKnows%s = endpoint{qpn: %s.QPN(), psn: %#x, qkey: %#x, gid: %s.gid.GID, mtu: %s.mtu}",
		h.Peer, title(name), v, t.PSN, t.QKey, h.Name, h.Name))
}

func (g goWriter) tellMemory(l *lines, h *Host, a *action.Action, o *Object) {
	v := g.v(h, a.MR)
	key, addr := v+".RKey()", v+".Addr()"
	switch {
	case o.Kind == "MW" && o.Bound != nil && !slices.Contains(o.Bound.Access, "ZERO_BASED"):
		addr = g.v(h, o.Bound.MR) + ".Addr()" + plus(o.Bound.Offset, fmt.Sprint(o.Bound.Offset))
	case o.Kind == "MW":
		addr = "0"
	}
	if a.LKey {
		key = v + ".LKey()"
	}
	l.add(fmt.Sprintf("%sKnows%sMemory = memory{addr: %s, rkey: %s}", h.Peer, title(a.MR), addr, key))
}

func (g goWriter) write(l *lines, h *Host, a *action.Action, _ *Result) {
	b, _ := a.Bytes() // the session has read them
	l.add(fmt.Sprintf("copy(%s.Bytes()[%d:], %q)", g.v(h, a.Name), a.Offset, b))
}

func (g goWriter) await(h *Host, name string, state qpstate.State) string {
	return fmt.Sprintf("awaitState(%q, %s, %s)", h.Name+": "+name, g.v(h, name), g.state(state.Name()))
}
