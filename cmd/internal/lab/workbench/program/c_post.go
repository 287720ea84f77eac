// Work requests and completions in C.

package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
)

// sgl writes the elements of all requests of a post into one array and returns where each begins.
func (c cWriter) sgl(l *lines, h *Host, wrs []action.WR) (from []int) {
	var elements []string
	for i := range wrs {
		from = append(from, len(elements))
		for _, e := range wrs[i].SGL {
			v := c.v(h, e.MR)
			lkey, addr := v+"->lkey", "(uintptr_t)"+v+"_bytes"
			o := h.region(e.MR)
			switch {
			case e.LKey != nil:
				lkey = fmt.Sprintf("%#x", uint64(*e.LKey))
			case o != nil && o.Closed:
				lkey = v + "_lkey" // the region is gone
			}
			if o != nil && o.ZeroBased && !slices.Contains(wrs[i].Flags, "INLINE") {
				addr = "0"
			}
			elements = append(elements, fmt.Sprintf("{ .addr = %s%s, .length = %d, .lkey = %s }", addr, plus(e.Offset, fmt.Sprint(e.Offset)), e.Length, lkey))
		}
	}
	if len(elements) > 0 {
		l.add("    struct ibv_sge sge[] = {")
		for _, e := range elements {
			l.add("        " + e + ",")
		}
		l.add("    };")
	}
	return from
}

// list is the part of a request that names its elements and its successor.
func list(w *action.WR, i, n, from int) string {
	text := fmt.Sprintf(".wr_id = %d,", uint64(w.ID))
	if i+1 < n {
		text += fmt.Sprintf(" .next = &wr[%d],", i+1)
	}
	if len(w.SGL) > 0 {
		text += fmt.Sprintf(" .sg_list = &sge[%d], .num_sge = %d,", from, len(w.SGL))
	}
	return text
}

func (c cWriter) postSend(l *lines, h *Host, a *action.Action, r *Result) {
	for i := range a.WRs {
		o, why := a.WRs[i].Opcode, ""
		switch o {
		case "":
			o, why = "unset opcode", "in C an opcode is always set: 0 is IBV_WR_RDMA_WRITE"
		case "FLUSH", "ATOMIC_WRITE", "TSO":
			why = "ibv_post_send has no opcode " + o + "; in C, see ibv_wr_" + strings.ToLower(o) + "(3)"
		default:
			continue
		}
		l.add(c.comment(why))
		l.check(fmt.Sprintf("missing(%q);", o))
		return
	}
	l.add("{")
	from := c.sgl(l, h, a.WRs)
	for i := range a.WRs {
		if w := &a.WRs[i]; w.Opcode == "BIND_MW" && w.MW != "" {
			l.add(fmt.Sprintf("    uint32_t key%d = ibv_inc_rkey(%s->rkey);", i, c.v(h, w.MW)))
		}
	}
	l.add("    struct ibv_send_wr wr[] = {")
	for i := range a.WRs {
		w := &a.WRs[i]
		text := fmt.Sprintf("{ %s .opcode = IBV_WR_%s, .send_flags = %s,", list(w, i, len(a.WRs), from[i]), w.Opcode, cFlags("IBV_SEND_", w.Flags))
		l.add("        " + text + c.more(h, w, i) + " },")
	}
	l.add("    }, *bad;", fmt.Sprintf("    ret = ibv_post_send(%s, wr, &bad);", c.v(h, a.Name)))
	for i := range a.WRs[:r.Accepted] {
		if w := &a.WRs[i]; w.Opcode == "BIND_MW" {
			l.add(fmt.Sprintf("    %s->rkey = key%d;", c.v(h, w.MW), i)) // some libraries have set it, others have not
		}
	}
	l.add("}")
	if r.Errno == full {
		l.check(c.comment(whyFull))
	}
	c.returned(l, h, "ibv_post_send", r)
}

// more is the part of send request i that depends on its opcode.
func (c cWriter) more(h *Host, w *action.WR, i int) string {
	var b strings.Builder
	addr, rkey := remote(c, h, w.Remote)
	switch {
	case strings.HasSuffix(w.Opcode, "WITH_IMM"):
		fmt.Fprintf(&b, " .imm_data = htonl(%#x),", w.Imm)
	case w.Opcode == "SEND_WITH_INV":
		_, key := remote(c, h, w.Invalidate)
		fmt.Fprintf(&b, " .invalidate_rkey = %s,", key)
	case w.Opcode == "LOCAL_INV" && w.MW != "":
		fmt.Fprintf(&b, " .invalidate_rkey = %s->rkey,", c.v(h, w.MW))
	case w.Opcode == "LOCAL_INV":
		_, key := remote(c, h, w.Invalidate)
		fmt.Fprintf(&b, " .invalidate_rkey = %s,", key)
	}
	switch {
	case strings.HasPrefix(w.Opcode, "ATOMIC_"):
		fmt.Fprintf(&b, " .wr.atomic = { .remote_addr = %s, .rkey = %s, .compare_add = %#x, .swap = %#x },", addr, rkey, uint64(w.CompareAdd), uint64(w.Swap))
	case strings.HasPrefix(w.Opcode, "RDMA_"):
		fmt.Fprintf(&b, " .wr.rdma = { .remote_addr = %s, .rkey = %s },", addr, rkey)
	case w.Opcode == "BIND_MW" && w.Bind != nil:
		fmt.Fprintf(&b, " .bind_mw = { .mw = %s, .rkey = key%d, .bind_info = %s },", c.v(h, w.MW), i, c.bindInfo(h, w.Bind))
	case w.AH != "":
		qpn, qkey := datagram(c, h, w)
		fmt.Fprintf(&b, " .wr.ud = { .ah = %s, .remote_qpn = %s, .remote_qkey = %s },", c.v(h, w.AH), qpn, qkey)
	}
	return b.String()
}

func (c cWriter) bindInfo(h *Host, b *action.Bind) string {
	return fmt.Sprintf("{ .mr = %s, .addr = (uintptr_t)%s_bytes%s, .length = %d, .mw_access_flags = %s }", c.v(h, b.MR), c.v(h, b.MR),
		plus(b.Offset, fmt.Sprint(b.Offset)), b.Length, cFlags("IBV_ACCESS_", b.Access))
}

func (c cWriter) postRecv(l *lines, h *Host, a *action.Action, r *Result) {
	call := "ibv_post_recv"
	if o := h.open(a.Name); o != nil && o.Kind == "SRQ" {
		call = "ibv_post_srq_recv"
	}
	l.add("{")
	from := c.sgl(l, h, a.WRs)
	l.add("    struct ibv_recv_wr wr[] = {")
	for i := range a.WRs {
		l.add("        { " + list(&a.WRs[i], i, len(a.WRs), from[i]) + " },")
	}
	l.add("    }, *bad;", fmt.Sprintf("    ret = %s(%s, wr, &bad);", call, c.v(h, a.Name)), "}")
	c.returned(l, h, call, r)
}

func (c cWriter) bindMW(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("ret = ibv_bind_mw(%s, %s, &(struct ibv_mw_bind){ .wr_id = %d, .send_flags = %s, .bind_info = %s });", c.v(h, a.Name), c.v(h, a.MW),
		uint64(a.ID), cFlags("IBV_SEND_", a.Flags), c.bindInfo(h, &action.Bind{MR: a.MR, Offset: a.Offset, Length: a.Length, Access: a.Access})))
	c.returned(l, h, "ibv_bind_mw", r)
}

func (c cWriter) poll(l *lines, h *Host, a *action.Action, r *Result) {
	l.show = append(l.show, fmt.Sprintf("ret = ibv_poll_cq(%s, %d, wc);", c.v(h, a.Name), a.Max))
	if len(r.Completions) == 0 {
		l.check(c.comment("ibv_poll_cq: nothing has completed"))
		return
	}
	for i := range r.Completions {
		w := &r.Completions[i]
		l.check(fmt.Sprintf("completed(%q, %s, %d, IBV_WC_%s);", h.Name, c.v(h, a.Name), w.ID, w.Status))
	}
}

func (c cWriter) arm(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("ret = ibv_req_notify_cq(%s, %s);", c.v(h, a.Name), c.boolean(a.Solicited)))
	c.returned(l, h, "ibv_req_notify_cq", r)
}

func (c cWriter) getEvent(l *lines, h *Host, a *action.Action, r *Result) {
	call := fmt.Sprintf("ret = ibv_get_cq_event(%s_channel, &cq, &context);", c.v(h, a.Name))
	if r.Asleep {
		c.sleeps(l, call, "ibv_get_cq_event")
		return
	}
	l.show = append(l.show, call)
	l.check(fmt.Sprintf("await_event(%q, %s_channel);", h.Name+": ibv_get_cq_event", c.v(h, a.Name)))
}

// sleeps shows a call that the program leaves out, because it would wait.
func (c cWriter) sleeps(l *lines, call, verb string) {
	l.show = append(l.show, call)
	l.check(c.comment(verb + " would sleep here"))
}

func (c cWriter) ackEvents(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("ibv_ack_cq_events(%s, %d);", c.v(h, a.Name), r.Acked))
}
