// Objects in a snapshot.

package workbench

import (
	"strconv"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// Hex is a number that is printed in hexadecimal, and so is a string in JSON.
type Hex uint64

// MarshalJSON implements json.Marshaler.
func (h Hex) MarshalJSON() ([]byte, error) {
	return []byte(`"0x` + strconv.FormatUint(uint64(h), 16) + `"`), nil
}

// ObjectView is an object. One of the pointers is set, by its kind; a PD has none.
type ObjectView struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`    // "PD", "MR", "CQ", "SRQ", "QP", "AH", "MW"
	Parents  []string `json:"parents"` // they cannot be closed before it
	Children []string `json:"children"`
	Made     int      `json:"made"` // number of the action
	MR       *MRView  `json:"mr,omitempty"`
	CQ       *CQView  `json:"cq,omitempty"`
	SRQ      *SRQView `json:"srq,omitempty"`
	QP       *QPView  `json:"qp,omitempty"`
	AH       *AHView  `json:"ah,omitempty"`
	MW       *MWView  `json:"mw,omitempty"`
}

// MRView is a region.
type MRView struct {
	Addr    Hex      `json:"addr"`
	Length  int      `json:"length"`
	LKey    Hex      `json:"lkey"`
	RKey    Hex      `json:"rkey"`
	Access  []string `json:"access"`
	Bytes   []byte   `json:"bytes"`   // base64
	Changed [][2]int `json:"changed"` // by the last action: offset and length of each run
}

// CQView is a completion queue.
type CQView struct {
	Depth       int          `json:"depth"`
	Armed       string       `json:"armed"` // "", "solicited" or "any"
	Overrun     bool         `json:"overrun"`
	Events      int          `json:"events"`      // in its channel
	Unacked     int          `json:"unacked"`     // taken from the channel and not acknowledged
	Completions []Completion `json:"completions"` // the oldest first
}

// SRQView is a shared receive queue.
type SRQView struct {
	MaxWR  uint32     `json:"max_wr"`
	MaxSGE uint32     `json:"max_sge"`
	Limit  uint32     `json:"limit"` // 0: not armed
	Recvs  []RecvView `json:"recvs"`
}

// AHView is an address handle.
type AHView struct {
	GID  string `json:"gid"`
	Text string `json:"text"`
}

// MWView is a memory window.
type MWView struct {
	Type   int      `json:"type"`
	RKey   Hex      `json:"rkey"`
	Bound  bool     `json:"bound"`
	Addr   Hex      `json:"addr"`
	Length int      `json:"length"`
	Access []string `json:"access"`
}

// QPView is a queue pair.
type QPView struct {
	QPN     uint32     `json:"qpn"`
	Type    string     `json:"type"`
	State   string     `json:"state"`
	Program string     `json:"program_state"` // after the program's last move; differs after an error
	SendCQ  string     `json:"send_cq"`
	RecvCQ  string     `json:"recv_cq"`
	SRQ     string     `json:"srq,omitempty"`
	SigAll  bool       `json:"sig_all"`
	Cap     Cap        `json:"cap"`
	Attrs   []AttrView `json:"attrs"`
	Sends   []SendView `json:"sends"` // the oldest first
	Recvs   []RecvView `json:"recvs"`
	Taken   *RecvView  `json:"taken"` // the receive that an unfinished message fills
	PSN     PSNView    `json:"psn"`
	Timer   *TimerView `json:"timer"`
	// Retries left; they begin at RETRY_CNT and RNR_RETRY.
	Retries    uint8 `json:"retries"`
	RNRRetries uint8 `json:"rnr_retries"`
	Draining   bool  `json:"draining"` // in SQD, with sends in flight
	Reads      int   `json:"reads_out"`
	Owed       int   `json:"reads_in"`
	// ToldPSN is the first PSN that exchange has told the peer; nil: none.
	ToldPSN *uint32 `json:"told_psn"`
}

// AttrView is an attribute of a queue pair.
type AttrView struct {
	Bit     string `json:"bit"`
	Field   string `json:"field"` // of struct ibv_qp_attr
	Text    string `json:"text"`
	Source  Source `json:"source"`
	Changed bool   `json:"changed"` // by the last action, which may have set it to the same value
}

// PSNView is the packet numbers of a queue pair, 24 bits each. The packets from Una to Next are in
// flight: sent and not acknowledged.
type PSNView struct {
	Una      uint32 `json:"una"`
	Next     uint32 `json:"next"`
	Max      uint32 `json:"max"` // one past all ever sent: Next is lower while packets are sent again
	Window   int64  `json:"window"`
	InFlight int64  `json:"in_flight"`
	Expected uint32 `json:"expected"`
	MSN      uint32 `json:"msn"`
}

// TimerView is the running timer of a queue pair.
type TimerView struct {
	Kind string `json:"kind"` // "ack timeout" or "rnr wait"
	Ends int64  `json:"ends_ns"`
}

// SendView is a work request in a send queue.
type SendView struct {
	ID      Num       `json:"id"`
	Opcode  string    `json:"opcode"`
	Flags   []string  `json:"flags"`
	Length  int       `json:"length"`
	SGL     []SGEView `json:"sgl"` // empty for inline data, which the post has copied
	Remote  *Hex      `json:"remote_addr,omitempty"`
	RKey    *Hex      `json:"rkey,omitempty"`
	Started bool      `json:"started"`
	First   uint32    `json:"first_psn"` // valid if started
	Packets int64     `json:"packets"`   // Packets, Sent and Acked are valid if started
	Sent    int64     `json:"sent"`
	Acked   int64     `json:"acked"`
	Done    bool      `json:"done,omitempty"`   // its place is not free: no completion of it or of a later request was polled
	Status  string    `json:"status,omitempty"` // if it is done and has failed: the status that a poll will find
}

// RecvView is a posted receive.
type RecvView struct {
	ID  Num       `json:"id"`
	SGL []SGEView `json:"sgl"`
}

// SGEView is an element of a list.
type SGEView struct {
	MR     string `json:"mr"` // "": no open region has the lkey
	Offset int64  `json:"offset"`
	Length uint32 `json:"length"`
	Addr   Hex    `json:"addr"`
	LKey   Hex    `json:"lkey"`
}

func (h *host) objectView(o *object) ObjectView {
	v := ObjectView{Name: o.name, Kind: o.kind, Parents: append([]string{}, o.parents...), Children: h.children(o), Made: o.made}
	switch o.kind {
	case "MR":
		v.MR = &MRView{Hex(o.mr.Addr()), o.mr.Len(), Hex(o.mr.LKey()), Hex(o.mr.RKey()), sorted(o.mr.Access(), accessBits), o.mr.Bytes(), o.changed}
	case "CQ":
		in := h.s.world.InspectCQ(h.side, o.cq)
		v.CQ = &CQView{Depth: o.cq.Depth(), Armed: in.Armed, Overrun: in.Overrun, Events: o.events, Unacked: o.unacked, Completions: []Completion{}}
		for i := range in.Completions {
			v.CQ.Completions = append(v.CQ.Completions, h.completion(&in.Completions[i]))
		}
	case "SRQ":
		attr, _ := o.srq.Query() // an open SRQ of this device never fails
		v.SRQ = &SRQView{attr.MaxWR, attr.MaxSGE, attr.Limit, h.recvs(h.s.world.InspectSRQ(h.side, o.srq))}
	case "AH":
		v.AH = &AHView{o.av.GRH.DGID.String(), o.av.String()}
	case "MW":
		in := simulated.InspectMW(o.mw)
		v.MW = &MWView{int(o.mw.Type()), Hex(o.mw.RKey()), in.Bound, Hex(in.Addr), in.Length, sorted(in.Access, accessBits)}
	case "QP":
		v.QP = h.qpView(o)
	}
	return v
}

func (h *host) qpView(o *object) *QPView {
	in, _ := h.s.world.InspectQP(h.side, o.qp)
	c := o.qp.Cap()
	v := &QPView{QPN: o.qp.QPN(), Type: o.qp.Type().Name(), State: in.Attr.State.Name(), Program: o.program.Name(), SigAll: o.sigAll,
		SendCQ: h.nameOf(o.qp.SendCQ()), RecvCQ: h.nameOf(o.qp.RecvCQ()), Cap: Cap{SendWR: c.MaxSendWR, RecvWR: c.MaxRecvWR, SendSGE: c.MaxSendSGE, RecvSGE: c.MaxRecvSGE, Inline: c.MaxInlineData},
		Sends: []SendView{}, Recvs: h.recvs(in.Recvs), Retries: in.Retries, RNRRetries: in.RNRRetries, Draining: in.Attr.SQDraining,
		Reads: in.AnswersAwaited, Owed: in.AnswersOwed, ToldPSN: o.psn,
		PSN: PSNView{psn(in.Una), psn(in.Next), psn(in.Max), in.Window, in.Next - in.Una, psn(in.Expected), in.MSN}}
	if srq := o.qp.SRQ(); srq != nil {
		for _, s := range h.objects {
			if s.srq == srq {
				v.SRQ = s.name
			}
		}
	}
	if in.HasDeadline {
		v.Timer = &TimerView{"ack timeout", int64(in.Deadline)}
		if in.WaitsRNR {
			v.Timer.Kind = "rnr wait"
		}
	}
	if in.Taken != nil {
		v.Taken = &h.recvs([]simulated.RecvView{*in.Taken})[0]
	}
	for _, held := range h.s.world.Held(h.side, o.qp) {
		done := h.send(&simulated.SendView{WR: held.WR, Length: bytesOf(held.WR.SGL)}, &in)
		done.Done = true
		if held.Status != verbs.WCSuccess {
			done.Status = statusName(held.Status)
		}
		v.Sends = append(v.Sends, done)
	}
	for i := range in.Sends {
		v.Sends = append(v.Sends, h.send(&in.Sends[i], &in))
	}
	for _, bit := range applies[o.qp.Type()] {
		was, set := o.sources[bit]
		source, text := was.Source, in.Attr.Value(bit)
		back := bit == qpstate.MaskSQPSN && in.Next < in.Max
		switch {
		case bit == qpstate.MaskState && in.Attr.State != o.program:
			source = Source{FromDevice, -1}
		case set && (was.text != text || back):
			source = Source{FromCounted, -1}
		case !set && text != resetAttr.Value(bit):
			source = Source{FromState, -1}
		case !set:
			source = Source{FromReset, -1}
		}
		v.Attrs = append(v.Attrs, AttrView{bit.Name(), action.Fields[bit], text, source,
			set && was.Action == len(h.s.actions)-1 || o.before != nil && o.before.Value(bit) != text})
	}
	return v
}

// resetAttr is the attributes of a queue pair in RESET.
var resetAttr = qpstate.Attr{PathMTU: qpstate.MTU256, PortNum: 1}

func psn(count int64) uint32 { return uint32(count) & 0xffffff }

func (h *host) nameOf(cq *verbs.CQ) string {
	for _, o := range h.objects {
		if o.cq == cq {
			return o.name
		}
	}
	return ""
}

func (h *host) send(w *simulated.SendView, in *simulated.QPView) SendView {
	v := SendView{ID: Num(w.WR.ID), Opcode: opcodeName(w.WR.Opcode), Flags: sorted(w.WR.Flags, flagBits), Length: w.Length, SGL: []SGEView{}, Started: w.Started}
	if w.WR.Flags&verbs.SendInline == 0 {
		v.SGL = h.elements(w.WR.SGL)
	}
	if w.WR.RKey != 0 || w.WR.RemoteAddr != 0 {
		addr, rkey := Hex(w.WR.RemoteAddr), Hex(w.WR.RKey)
		v.Remote, v.RKey = &addr, &rkey
	}
	if w.Started {
		within := func(count int64) int64 { return min(max(count-w.First, 0), w.Packets) }
		v.First, v.Packets, v.Sent, v.Acked = psn(w.First), w.Packets, within(in.Next), within(in.Una)
	}
	return v
}

func (h *host) recvs(list []simulated.RecvView) []RecvView {
	out := []RecvView{}
	for i := range list {
		out = append(out, RecvView{Num(list[i].ID), h.elements(list[i].SGL)})
	}
	return out
}

func (h *host) elements(sgl []verbs.SGE) []SGEView {
	out := []SGEView{}
	for _, e := range sgl {
		v := SGEView{Length: e.Length, Addr: Hex(e.Addr), LKey: Hex(e.LKey), Offset: int64(e.Addr)}
		for o := range h.open("MR") {
			if o.mr.LKey() == e.LKey {
				v.MR, v.Offset = o.name, int64(e.Addr-o.mr.Addr())
			}
		}
		out = append(out, v)
	}
	return out
}
