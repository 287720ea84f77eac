// Actions in C, with libibverbs.

package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/qpstate"
)

type cWriter struct{}

// v is the name of a host's object.
func (cWriter) v(h *Host, name string) string { return h.Name + "_" + name }

func (cWriter) comment(text string) string { return "/* " + text + " */" }

func (cWriter) psn(h *Host, qp string) string { return h.Name + "_" + qp + "_psn" }

func (cWriter) known(h *Host, qp string) string { return h.Name + "_knows_" + h.toldName(qp) }

func (cWriter) knownMemory(h *Host, mr string) string { return h.Name + "_knows_" + mr + "_memory" }

func (cWriter) state(name string) string { return "IBV_QPS_" + name }

func (cWriter) access(names []string) string { return cFlags("IBV_ACCESS_", names) }

func (cWriter) mtu(n int) string { return fmt.Sprintf("IBV_MTU_%d", n) }

func (cWriter) boolean(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func cFlags(prefix string, names []string) string {
	return flags(names, func(n string) string { return prefix + n })
}

// errnoC is the errno of a refusal.
func errnoC(r *Result) string { return cmp.Or(r.Errno, "0") }

func (c cWriter) returned(l *lines, h *Host, call string, r *Result) {
	l.check(fmt.Sprintf("returned(%q, ret, %s);", h.Name+": "+call, errnoC(r)))
}

func (c cWriter) object(l *lines, h *Host, a *action.Action, r *Result) {
	v := c.v(h, a.Name)
	switch a.Do {
	case "alloc_pd":
		l.add(fmt.Sprintf("%s = ibv_alloc_pd(%s.context);", v, h.Name))
	case "reg_mr":
		l.check(fmt.Sprintf("%s_bytes = buffer(%d);", v, max(a.Length, 1)))
		l.add(fmt.Sprintf("%s = ibv_reg_mr(%s, %s_bytes, %d, %s);", v, c.v(h, a.PD), v, a.Length, cFlags("IBV_ACCESS_", a.Access)))
	case "create_cq":
		l.show = append(l.show, fmt.Sprintf("%s_channel = ibv_create_comp_channel(%s.context);", v, h.Name))
		l.check(fmt.Sprintf("%s_channel = channel(%s.context);", v, h.Name))
		l.add(fmt.Sprintf("%s = ibv_create_cq(%s.context, %d, NULL, %s_channel, 0);", v, h.Name, a.Depth, v))
	case "create_srq":
		l.add(fmt.Sprintf("%s = ibv_create_srq(%s, &(struct ibv_srq_init_attr){ .attr = { .max_wr = %d, .max_sge = %d } });", v, c.v(h, a.PD), a.MaxWR, a.MaxSGE))
	case "create_qp":
		c.createQP(l, h, a, v)
	case "create_ah":
		l.add(fmt.Sprintf("%s = ibv_create_ah(%s, &(struct ibv_ah_attr)%s);", v, c.v(h, a.PD), c.address(h, a.AV, a.Peer)))
	case "alloc_mw":
		l.add(fmt.Sprintf("%s = ibv_alloc_mw(%s, IBV_MW_TYPE_%s);", v, c.v(h, a.PD), a.Type))
	}
	l.check(fmt.Sprintf("made(%q, %s != NULL, %s);", h.Name+": ibv_"+a.Do, v, errnoC(r)))
	if a.Do == "reg_mr" && r.Errno == "" {
		l.check(fmt.Sprintf("%s_lkey = %s->lkey;", v, v))
	}
}

func (c cWriter) createQP(l *lines, h *Host, a *action.Action, v string) {
	srq := ""
	if a.SRQ != "" {
		srq = " .srq = " + c.v(h, a.SRQ) + ","
	}
	l.add(fmt.Sprintf("%s = ibv_create_qp(%s, &(struct ibv_qp_init_attr){", v, c.v(h, a.PD)),
		fmt.Sprintf("    .qp_type = IBV_QPT_%s, .send_cq = %s, .recv_cq = %s,%s .sq_sig_all = %s,", a.Type, c.v(h, a.SendCQ), c.v(h, a.RecvCQ), srq, c.boolean(a.SigAll)),
		fmt.Sprintf("    .cap = { .max_send_wr = %d, .max_recv_wr = %d, .max_send_sge = %d, .max_recv_sge = %d, .max_inline_data = %d } });",
			a.Cap.SendWR, a.Cap.RecvWR, a.Cap.SendSGE, a.Cap.RecvSGE, a.Cap.Inline))
}

// address is an initializer of struct ibv_ah_attr.
func (c cWriter) address(h *Host, av *action.AV, peer string) string {
	gid := fmt.Sprintf("gid_of(%q)", av.GID)
	if av.FromPeer() {
		gid = c.known(h, peer) + ".gid"
	}
	index, port, hops := path(av, h.Name+".gid_index")
	return fmt.Sprintf("{ .is_global = %s, .port_num = %s, .dlid = %s.lid, .grh = { .dgid = %s, .sgid_index = %s, .hop_limit = %d, .traffic_class = %d, .flow_label = %d } }",
		c.boolean(!av.Local), port, h.Peer, gid, index, hops, av.TrafficClass, av.FlowLabel)
}

func (c cWriter) closing(l *lines, h *Host, a *action.Action, o *Object, r *Result) {
	call := fmt.Sprintf("ret = %s(%s);", o.Verb, c.v(h, a.Name))
	if r.Asleep {
		c.sleeps(l, call, o.Verb)
		return
	}
	l.add(call)
	c.returned(l, h, o.Verb, r)
	if o.Kind == "CQ" && r.Errno == "" {
		l.check(fmt.Sprintf("ibv_destroy_comp_channel(%s_channel);", c.v(h, a.Name)))
	}
}

func (c cWriter) modify(l *lines, h *Host, a *action.Action, r *Result) {
	l.add("attr = (struct ibv_qp_attr){")
	for _, bit := range (action.AllBits & codedBits).Bits() {
		if raw, ok := a.Attr[bit.Name()]; ok {
			l.add(fmt.Sprintf("    .%s = %s,", action.Fields[bit], value(c, h, a, bit, raw)))
		}
	}
	l.add("};", fmt.Sprintf("ret = ibv_modify_qp(%s, &attr, %s);", c.v(h, a.Name), cFlags("IBV_QP_", a.Mask)))
	c.returned(l, h, "ibv_modify_qp", r)
}

func (c cWriter) query(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("ret = ibv_query_qp(%s, &attr, %s, &init);", c.v(h, a.Name), cFlags("IBV_QP_", queried)))
	c.returned(l, h, "ibv_query_qp", r)
}

func (c cWriter) modifySRQ(l *lines, h *Host, a *action.Action, r *Result) {
	mask, limit := srqChange(a)
	l.add(fmt.Sprintf("ret = ibv_modify_srq(%s, &(struct ibv_srq_attr){ .max_wr = %d, .srq_limit = %d }, %s);", c.v(h, a.Name), a.MaxWR, limit, cFlags("IBV_SRQ_", mask)))
	c.returned(l, h, "ibv_modify_srq", r)
}

func (c cWriter) tellEndpoint(l *lines, h *Host, name string, t Endpoint) {
	v := c.v(h, name)
	l.check(fmt.Sprintf("%s_psn = %#x;", v, t.PSN))
	l.add(fmt.Sprintf("%s_knows_%s = (struct endpoint){ .qpn = %s->qp_num, .psn = %#x, .qkey = %#x, .gid = %s.gid, .mtu = %s.mtu };",
		h.Peer, name, v, t.PSN, t.QKey, h.Name, h.Name))
}

func (c cWriter) tellMemory(l *lines, h *Host, a *action.Action, o *Object) {
	v := c.v(h, a.MR)
	key, addr := v+"->rkey", fmt.Sprintf("(uintptr_t)%s_bytes", v)
	switch {
	case o.Kind == "MW" && o.Bound != nil:
		addr = fmt.Sprintf("(uintptr_t)%s_bytes%s", c.v(h, o.Bound.MR), plus(o.Bound.Offset, fmt.Sprint(o.Bound.Offset)))
		if slices.Contains(o.Bound.Access, "ZERO_BASED") {
			addr = "0"
		}
	case o.Kind == "MW" || o.ZeroBased:
		addr = "0"
	}
	if a.LKey {
		key = v + "->lkey"
	}
	l.add(fmt.Sprintf("%s_knows_%s_memory = (struct memory){ .addr = %s, .rkey = %s };", h.Peer, a.MR, addr, key))
}

// cString quotes bytes for C, each as three octal digits if it is not a plain letter.
func cString(b []byte) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, x := range b {
		if x >= ' ' && x < 0x7f && x != '"' && x != '\\' && x != '?' {
			out.WriteByte(x)
		} else {
			fmt.Fprintf(&out, `\%03o`, x)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func (c cWriter) write(l *lines, h *Host, a *action.Action, _ *Result) {
	b, _ := a.Bytes() // the session has read them
	l.add(fmt.Sprintf("memcpy(%s_bytes%s, %s, %d);", c.v(h, a.Name), plus(a.Offset, fmt.Sprint(a.Offset)), cString(b), len(b)))
}

func (c cWriter) await(h *Host, name string, state qpstate.State) string {
	return fmt.Sprintf("await_state(%q, %s, %s);", h.Name+": "+name, c.v(h, name), c.state(state.Name()))
}
