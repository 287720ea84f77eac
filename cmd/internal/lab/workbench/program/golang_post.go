// Work requests and completions in Go.

package program

import (
	"fmt"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
)

// sgl is the list of a request. Elements beyond their region are written out, because MR.SGE
// panics for them.
func (g goWriter) sgl(h *Host, w *action.WR) string {
	if len(w.SGL) == 0 {
		return ""
	}
	var elements []string
	for _, e := range w.SGL {
		v := g.v(h, e.MR)
		o := h.region(e.MR)
		if o != nil && !o.Closed && e.LKey == nil && e.Offset >= 0 && e.Offset <= o.Length && int64(e.Length) <= int64(o.Length-e.Offset) {
			elements = append(elements, fmt.Sprintf("%s.SGE(%d, %d)", v, e.Offset, e.Length))
			continue
		}
		lkey := v + "LKey"
		if e.LKey != nil {
			lkey = fmt.Sprintf("%#x", uint64(*e.LKey))
		}
		elements = append(elements, fmt.Sprintf("{Addr: %s.Addr()%s, Length: %d, LKey: %s}", v, plus(e.Offset, fmt.Sprint(e.Offset)), e.Length, lkey))
	}
	return ", SGL: []verbs.SGE{" + strings.Join(elements, ", ") + "}"
}

func (g goWriter) postSend(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("err = %s.PostSend([]verbs.SendWR{", g.v(h, a.Name)))
	for i := range a.WRs {
		w := &a.WRs[i]
		l.add(fmt.Sprintf("\t{ID: %d, Opcode: %s, Flags: %s%s%s},", uint64(w.ID), goNames[w.Opcode], goFlags(w.Flags), g.sgl(h, w), g.more(h, w)))
	}
	l.add("})")
	if r.Errno == full {
		l.check(g.comment(whyFull))
	}
	g.returned(l, h, "ibv_post_send", r)
}

// more is the part of a send request that depends on its opcode.
func (g goWriter) more(h *Host, w *action.WR) string {
	var b strings.Builder
	if strings.HasSuffix(w.Opcode, "WITH_IMM") {
		fmt.Fprintf(&b, ", Imm: %#x", w.Imm)
	}
	if w.Remote != nil {
		addr, rkey := remote(g, h, w.Remote)
		fmt.Fprintf(&b, ", RemoteAddr: %s, RKey: %s", addr, rkey)
	}
	if strings.HasPrefix(w.Opcode, "ATOMIC_") && w.Opcode != "ATOMIC_WRITE" {
		fmt.Fprintf(&b, ", CompareAdd: %#x, Swap: %#x", uint64(w.CompareAdd), uint64(w.Swap))
	}
	if w.Invalidate != nil {
		_, rkey := remote(g, h, w.Invalidate)
		fmt.Fprintf(&b, ", InvalidateRKey: %s", rkey)
	}
	if w.MW != "" && w.Opcode == "LOCAL_INV" {
		fmt.Fprintf(&b, ", InvalidateRKey: %s.RKey()", g.v(h, w.MW))
	}
	if w.Bind != nil && w.MW != "" && w.Opcode != "LOCAL_INV" {
		fmt.Fprintf(&b, ", Bind: &%s", g.bind(h, w.MW, w.Bind, fmt.Sprintf(", RKey: verbs.IncRKey(%s.RKey())", g.v(h, w.MW))))
	}
	if w.Flush != nil {
		fmt.Fprintf(&b, ", Flush: verbs.Flush{Length: %d, Type: %d, Level: %d}", w.Flush.Length, w.Flush.Type, w.Flush.Level)
	}
	if w.AH != "" {
		qpn, qkey := datagram(g, h, w)
		fmt.Fprintf(&b, ", AH: %s, RemoteQPN: %s, RemoteQKey: %s", g.v(h, w.AH), qpn, qkey)
	}
	return b.String()
}

func (g goWriter) bind(h *Host, mw string, b *action.Bind, more string) string {
	mr := g.v(h, b.MR)
	return fmt.Sprintf("verbs.MWBind{MW: %s, MR: %s%s, Addr: %s.Addr()%s, Length: %d, Access: %s}", g.v(h, mw), mr, more, mr,
		plus(b.Offset, fmt.Sprint(b.Offset)), b.Length, goFlags(b.Access))
}

func (g goWriter) postRecv(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("err = %s.PostRecv([]verbs.RecvWR{", g.v(h, a.Name)))
	for i := range a.WRs {
		l.add(fmt.Sprintf("\t{ID: %d%s},", uint64(a.WRs[i].ID), g.sgl(h, &a.WRs[i])))
	}
	l.add("})")
	g.returned(l, h, "ibv_post_recv", r)
}

func (g goWriter) bindMW(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("err = %s.BindMW(%d, %s, %s)", g.v(h, a.Name), uint64(a.ID), goFlags(a.Flags),
		g.bind(h, a.MW, &action.Bind{MR: a.MR, Offset: a.Offset, Length: a.Length, Access: a.Access}, "")))
	g.returned(l, h, "ibv_bind_mw", r)
}

func (g goWriter) poll(l *lines, h *Host, a *action.Action, r *Result) {
	l.show = append(l.show, fmt.Sprintf("wcs := make([]verbs.WC, %d)", a.Max), fmt.Sprintf("n, err = %s.Poll(wcs)", g.v(h, a.Name)))
	if len(r.Completions) == 0 {
		l.check(g.comment("ibv_poll_cq: nothing has completed"))
		return
	}
	for i := range r.Completions {
		w := &r.Completions[i]
		l.check(fmt.Sprintf("completed(%q, %s, %d, %d) // %s", h.Name, g.v(h, a.Name), w.ID, w.Number, w.Status))
	}
}

func (g goWriter) arm(l *lines, h *Host, a *action.Action, r *Result) {
	l.add(fmt.Sprintf("err = %s.Arm(%v)", g.v(h, a.Name), a.Solicited))
	g.returned(l, h, "ibv_req_notify_cq", r)
}

func (g goWriter) getEvent(l *lines, h *Host, a *action.Action, _ *Result) {
	l.add(g.comment("package verbs has no such call: CQ.Wait polls, arms, polls again, sleeps and acknowledges"))
}

func (g goWriter) ackEvents(l *lines, h *Host, a *action.Action, _ *Result) {
	l.add(g.comment("CQ.Wait acknowledges its events"))
}
