// Queues: posting work requests, and polling CQs.

package workbench

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// opcodes are the work requests of a send queue by name.
var opcodes = func() map[string]verbs.Opcode {
	m := make(map[string]verbs.Opcode)
	for o := verbs.OpRDMAWrite; o <= verbs.OpAtomicWrite; o++ {
		m[opcodeName(o)] = o
	}
	return m
}()

func opcodeName(o verbs.Opcode) string { return strings.TrimPrefix(o.String(), "IBV_WR_") }

// sendWR makes the request of an action.
func (h *host) sendWR(w *WR, t verbs.QPType) (out verbs.SendWR, err error) {
	opcode, ok := opcodes[w.Opcode]
	if !ok && w.Opcode != "" {
		return out, errors.Errorf("opcode %q: there is none of that name", w.Opcode)
	}
	flags, err := flagsOf(w.Flags)
	if err != nil {
		return out, err
	}
	sgl, err := h.sgl(w.SGL, flags&verbs.SendInline != 0)
	if err != nil {
		return out, err
	}
	out = verbs.SendWR{ID: uint64(w.ID), Opcode: opcode, Flags: flags, SGL: sgl, Imm: w.Imm, CompareAdd: uint64(w.CompareAdd), Swap: uint64(w.Swap)}
	if w.Remote != nil {
		if out.RemoteAddr, out.RKey, err = h.remote(w.Remote); err != nil {
			return out, err
		}
	}
	if w.Flush != nil {
		out.Flush = verbs.Flush{Length: w.Flush.Length, Type: verbs.FlushType(w.Flush.Type), Level: verbs.FlushLevel(w.Flush.Level)}
	}
	if err := h.windowWR(w, &out); err != nil {
		return out, err
	}
	if t == verbs.UD {
		err = h.datagramWR(w, &out)
	}
	return out, err
}

// windowWR fills in the fields of requests that are about memory windows.
func (h *host) windowWR(w *WR, out *verbs.SendWR) (err error) {
	if w.Invalidate != nil {
		if _, out.InvalidateRKey, err = h.remote(w.Invalidate); err != nil {
			return err
		}
	}
	if w.MW == "" {
		return nil
	}
	mw, err := h.find("MW", w.MW)
	if err != nil {
		return err
	}
	if out.Opcode == verbs.OpLocalInv {
		out.InvalidateRKey = mw.mw.RKey()
		return nil
	}
	if w.Bind == nil {
		return errors.New("a request with mw needs bind")
	}
	bind, err := h.bind(mw, w.Bind)
	if err != nil {
		return err
	}
	bind.RKey = verbs.IncRKey(mw.mw.RKey())
	out.Bind = &bind
	return nil
}

func (h *host) bind(mw *object, b *Bind) (verbs.MWBind, error) {
	mr, err := h.find("MR", b.MR)
	if err != nil {
		return verbs.MWBind{}, err
	}
	access, err := accessOf(b.Access)
	if err != nil {
		return verbs.MWBind{}, err
	}
	return verbs.MWBind{MW: mw.mw, MR: mr.mr, Addr: mr.mr.Addr() + uint64(b.Offset), Length: uint64(b.Length), Access: access}, nil
}

// datagramWR fills in where a UD request goes.
func (h *host) datagramWR(w *WR, out *verbs.SendWR) error {
	if w.AH != "" {
		ah, err := h.find("AH", w.AH)
		if err != nil {
			return err
		}
		out.AH = ah.ah
	}
	if w.RemoteQPN == nil || w.RemoteQKey == nil {
		t, err := h.toldOf(w.RemoteQP)
		if err != nil {
			return err
		}
		out.RemoteQPN, out.RemoteQKey = t.QPN, t.QKey
	}
	if w.RemoteQPN != nil {
		out.RemoteQPN = uint32(*w.RemoteQPN)
	}
	if w.RemoteQKey != nil {
		out.RemoteQKey = uint32(*w.RemoteQKey)
	}
	return nil
}

// sgl makes the list of a request. The library reads inline data through the address, so there the
// bytes must exist, and the address is that of the memory itself.
func (h *host) sgl(list []SGE, inline bool) ([]verbs.SGE, error) {
	if len(list) > 64 {
		return nil, errors.New("a request has at most 64 elements here")
	}
	var out []verbs.SGE
	for i := range list {
		e := &list[i]
		o, err := h.region(e.MR)
		if err != nil {
			return nil, err
		}
		sge := verbs.SGE{Addr: o.mr.Addr() + uint64(e.Offset), Length: e.Length, LKey: o.mr.LKey()}
		if inline {
			buf := o.mr.Bytes()
			if e.Offset < 0 || e.Offset >= len(buf) || int64(e.Length) > int64(len(buf)-e.Offset) {
				return nil, errors.Errorf("inline data: %d bytes at offset %d are not within %q; a program that reads there reads other memory or crashes", e.Length, e.Offset, e.MR)
			}
			sge.Addr, sge.LKey = uint64(uintptr(unsafe.Pointer(&buf[e.Offset]))), 0
		}
		if e.LKey != nil {
			sge.LKey = uint32(*e.LKey)
		}
		out = append(out, sge)
	}
	return out, nil
}

// remote returns the address and the key of the peer's memory.
func (h *host) remote(r *Remote) (addr uint64, rkey uint32, err error) {
	if r.MR == "" {
		return uint64(r.Addr) + uint64(r.Offset), uint32(r.RKey) + r.RKeyAdd, nil
	}
	known, err := h.regionOf(r.MR)
	return known.Addr + uint64(r.Offset), known.RKey + r.RKeyAdd, err
}

func (h *host) postSend(a *Action) (*Result, error) {
	o, err := h.find("QP", a.Name)
	if err != nil {
		return nil, err
	}
	if len(a.WRs) == 0 || len(a.WRs) > maxWRs {
		return nil, errors.Errorf("a post has 1 to %d requests", maxWRs)
	}
	wrs := make([]verbs.SendWR, len(a.WRs))
	for i := range wrs {
		if wrs[i], err = h.sendWR(&a.WRs[i], o.qp.Type()); err != nil {
			return nil, errors.WithMessagef(err, "request %d", i)
		}
	}
	r := posted(len(wrs), o.qp.PostSend(wrs))
	if r.Refused != nil && r.Refused.Errno == "ENOMEM" && !h.completes(o) {
		r.Refused.Hint = "move the queue pair to RESET: no request in the send queue is signaled, so no completion will free a place; then signal at least every N/2-th request of a queue of N"
	}
	for i := range tried(r, wrs) {
		h.posted(o, &wrs[i], refusedAt(r, i))
	}
	for i := range a.WRs[:r.Accepted] {
		if w := &a.WRs[i]; w.Opcode == "BIND_MW" {
			mw, err := h.find("MW", w.MW)
			if err != nil {
				return nil, err
			}
			mw.bound = w.Bind
		}
	}
	return r, nil
}

// completes reports whether a request in a send queue has a completion, or will have one if it succeeds.
func (h *host) completes(o *object) bool {
	in, _ := h.s.world.InspectQP(h.side, o.qp)
	return o.sigAll ||
		slices.ContainsFunc(in.Sends, func(w simulated.SendView) bool { return w.WR.Flags&verbs.SendSignaled != 0 }) ||
		slices.ContainsFunc(h.s.world.Held(h.side, o.qp), func(w simulated.Held) bool {
			return w.WR.Flags&verbs.SendSignaled != 0 || w.Status != verbs.WCSuccess
		})
}

// posted is the Result of a post of n requests.
func posted(n int, err error) *Result {
	var refused *verbs.PostError
	switch {
	case errors.As(err, &refused):
		n = refused.Index
	case err != nil:
		n = 0
	}
	return &Result{Accepted: n, Refused: refusalOf(err)}
}

func (h *host) postRecv(a *Action) (*Result, error) {
	o, err := h.find("", a.Name)
	if err != nil {
		return nil, err
	}
	if len(a.WRs) == 0 || len(a.WRs) > maxWRs {
		return nil, errors.Errorf("a post has 1 to %d receives", maxWRs)
	}
	wrs := make([]verbs.RecvWR, len(a.WRs))
	for i := range wrs {
		sgl, err := h.sgl(a.WRs[i].SGL, false)
		if err != nil {
			return nil, errors.WithMessagef(err, "receive %d", i)
		}
		wrs[i] = verbs.RecvWR{ID: uint64(a.WRs[i].ID), SGL: sgl}
	}
	var post func([]verbs.RecvWR) error
	switch o.kind {
	case "QP":
		post = o.qp.PostRecv
	case "SRQ":
		post = o.srq.PostRecv
	default:
		return nil, errors.Errorf("%q is %s: receives go to a queue pair or an SRQ", a.Name, o.aKind())
	}
	r := posted(len(wrs), post(wrs))
	for i := range tried(r, wrs) {
		h.postedRecv(o, &wrs[i], refusedAt(r, i))
	}
	return r, nil
}

// tried returns the requests that a post has tried: the device does not look at those behind a refused one.
func tried[WR any](r *Result, wrs []WR) []WR {
	if r.Refused != nil {
		return wrs[:min(r.Accepted+1, len(wrs))]
	}
	return wrs
}

// refusedAt returns the refusal of request i of a post, or nil.
func refusedAt(r *Result, i int) *Refusal {
	if i < r.Accepted {
		return nil
	}
	return r.Refused
}

// bindMW binds a window of type 1; type 2 is bound by a work request.
func (h *host) bindMW(a *Action) (*Result, error) {
	o, err := h.find("QP", a.Name)
	if err != nil {
		return nil, err
	}
	mw, err := h.find("MW", a.MW)
	if err != nil {
		return nil, err
	}
	flags, err := flagsOf(a.Flags)
	if err != nil {
		return nil, err
	}
	to := &Bind{MR: a.MR, Offset: a.Offset, Length: a.Length, Access: a.Access}
	bind, err := h.bind(mw, to)
	if err != nil {
		return nil, err
	}
	if err := o.qp.BindMW(uint64(a.ID), flags, bind); err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	mw.bound = to
	return &Result{Accepted: 1}, nil
}

// defaultPoll is how many completions poll_cq takes if the action does not say.
const defaultPoll = 16

func (h *host) pollCQ(a *Action) (*Result, error) {
	o, err := h.find("CQ", a.Name)
	if err != nil {
		return nil, err
	}
	if a.Max < 0 || a.Max > maxQueue {
		return nil, errors.Errorf("max %d: a poll takes 1 to %d completions", a.Max, maxQueue)
	}
	if a.Max == 0 {
		a.Max = defaultPoll
	}
	held := h.held()
	wcs := make([]verbs.WC, a.Max)
	n, err := o.cq.Poll(wcs)
	if err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	r := &Result{freed: held - h.held()}
	for i := range wcs[:n] {
		h.completed(&wcs[i])
		r.Completions = append(r.Completions, h.completion(&wcs[i]))
	}
	if n == 0 {
		r.Note = "nothing has completed"
	}
	return r, nil
}

func (h *host) modifySRQ(a *Action) (*Result, error) {
	o, err := h.find("SRQ", a.Name)
	if err != nil {
		return nil, err
	}
	attr, mask := verbs.SRQAttr{MaxWR: a.MaxWR}, verbs.SRQAttrMask(0)
	if a.MaxWR != 0 {
		mask |= verbs.SRQMaxWR
	}
	if a.Limit != nil {
		attr.Limit, mask = *a.Limit, mask|verbs.SRQLimit
	}
	if a.MaxWR > maxQueue {
		return nil, errors.Errorf("max_wr %d: a queue has at most %d requests here", a.MaxWR, maxQueue)
	}
	if err := o.srq.Modify(attr, mask); err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	return &Result{}, nil
}

// Completion is a completion as the page shows it.
type Completion struct {
	ID      Num    `json:"id"`
	Status  string `json:"status"` // "SUCCESS", "RNR_RETRY_EXC_ERR" …
	Number  uint32 `json:"status_number"`
	Opcode  string `json:"opcode,omitempty"` // only of a success, as in C
	ByteLen uint32 `json:"byte_len,omitempty"`
	Imm     *Num   `json:"imm,omitempty"`
	RKey    *Num   `json:"invalidated_rkey,omitempty"`
	QPN     uint32 `json:"qpn"`
	QP      string `json:"qp,omitempty"` // its name
	SrcQPN  uint32 `json:"src_qpn,omitempty"`
	Text    string `json:"text,omitempty"`  // of a failure: what it means, and what to check
	Check   string `json:"check,omitempty"` // of a refused request: the check of the peer or, of LOC_PROT_ERR, of this device that it failed
}

func statusName(s verbs.WCStatus) string { return strings.TrimPrefix(s.String(), "IBV_WC_") }

func (h *host) completion(wc *verbs.WC) Completion {
	c := Completion{ID: Num(wc.ID), Status: statusName(wc.Status), Number: uint32(wc.Status), QPN: wc.QPN}
	if o := h.qpOf(wc.QPN); o != nil {
		c.QP = o.name
	}
	if err := wc.Err(); err != nil {
		c.Text, c.Check = err.Error(), h.failedCheck(wc)
		return c
	}
	c.Opcode, c.ByteLen, c.SrcQPN = strings.TrimPrefix(wc.Opcode.String(), "IBV_WC_"), wc.ByteLen, wc.SrcQPN
	if wc.Flags&verbs.WCWithImm != 0 {
		imm := Num(wc.Imm())
		c.Imm = &imm
	}
	if wc.Flags&verbs.WCWithInv != 0 {
		rkey := Num(wc.InvalidatedRKey())
		c.RKey = &rkey
	}
	return c
}

// qpOf returns the open queue pair with a number, or nil.
func (h *host) qpOf(qpn uint32) *object {
	for o := range h.open("QP") {
		if o.qp.QPN() == qpn {
			return o
		}
	}
	return nil
}

func hex24(n uint32) string { return fmt.Sprintf("0x%06x", n) }
