// Packets in a snapshot, and one packet in detail.

package workbench

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/simulated"
)

// PacketView is a packet.
type PacketView struct {
	ID      int     `json:"id"`     // from 1 on
	Action  int     `json:"action"` // the number of the action that sent it
	From    string  `json:"from"`
	Sent    int64   `json:"sent_ns"`
	Arrives int64   `json:"arrives_ns"` // when it arrives, has arrived or was dropped
	Opcode  string  `json:"opcode"`
	PSN     uint32  `json:"psn"`
	Request bool    `json:"request"` // from a requester; otherwise from a responder
	Bytes   int     `json:"bytes"`   // of payload
	Carries string  `json:"carries"` // the AETH, the RETH …
	Imm     *Num    `json:"imm,omitempty"`
	Fate    string  `json:"fate"`            // "in flight", "delivered", "dropped" or "unrouted"
	Outcome string  `json:"outcome"`         // after delivery: "", or why it did not do its work
	Check   string  `json:"check,omitempty"` // the check of the receiver that it failed, in words; of a NAK, what it refuses
	CopyOf  int     `json:"copy_of,omitempty"`
	Flipped []int   `json:"flipped,omitempty"`
	Marked  bool    `json:"marked,omitempty"` // its ECN field says that the path is congested
	Why     WhyView `json:"why"`
}

// WhyView is why a packet was sent.
type WhyView struct {
	Kind    string `json:"kind"` // "request", "ack", "nak", "rnr nak", "response", "cnp"
	QP      string `json:"qp"`   // the sender's
	Answers int    `json:"answers,omitempty"`
	WR      *Num   `json:"wr,omitempty"`
	Opcode  string `json:"wr_opcode,omitempty"`
	Index   int    `json:"index,omitempty"`
	Count   int    `json:"count,omitempty"`
	Again   string `json:"again,omitempty"` // "timeout", "rnr wait", "nak", "gap", "ack", "probe"
	Because int    `json:"because,omitempty"`
	Text    string `json:"text"`
}

func (s *Session) packetView(p *simulated.Packet) PacketView {
	v := PacketView{ID: p.ID, Action: s.sentBy[p.ID-1], From: p.From.String(), Sent: int64(p.Sent), Arrives: int64(p.Arrives), Opcode: p.Opcode(), PSN: p.PSN(), Request: p.IsRequest(),
		Bytes: p.PayloadLen(), Carries: p.Carries(), Fate: string(p.Fate), Outcome: p.Outcome, CopyOf: p.CopyOf, Flipped: p.Flipped, Marked: p.Marked,
		Why: WhyView{Kind: p.Why.Kind, Answers: p.Why.Answers, Again: p.Why.Again.Kind, Because: p.Why.Again.Packet, Text: p.Why.Text}}
	v.Check = s.check(p)
	if imm, has := p.Imm(); has {
		n := Num(imm)
		v.Imm = &n
	}
	for _, o := range s.hosts[p.From].objects {
		if o.kind == "QP" && o.qp.QPN() == p.Why.QPN { // open or not
			v.Why.QP = o.name
		}
	}
	if p.Why.HasWR {
		id := Num(p.Why.WR)
		v.Why.WR, v.Why.Opcode, v.Why.Index, v.Why.Count = &id, opcodeName(p.Why.Opcode), p.Why.Index, p.Why.Count
	}
	return v
}

// check returns the check that a packet has failed, with the region's name. A NAK reports the check of its request.
func (s *Session) check(p *simulated.Packet) string {
	receiver, check := s.hosts[p.From.Peer()], p.Check
	if p.Why.Kind == "nak" && p.Outcome != simulated.OutcomeNoSuch {
		answered := s.world.Packets()[p.Why.Answers-1]
		receiver, check = s.hosts[p.From], answered.Check
		if answered.Outcome == simulated.OutcomeKept {
			check = "" // that packet is not refused
		}
	}
	for o := range receiver.open("MR") {
		check = strings.ReplaceAll(check, "the region of rkey "+hexText(o.mr.LKey()), "region "+o.name)
	}
	return check
}

// PacketDetail is all of a packet.
type PacketDetail struct {
	Packet PacketView  `json:"packet"`
	Frame  string      `json:"frame"` // hex, from the IP header to the ICRC
	Fields []FieldView `json:"fields"`
	ICRC   ICRCView    `json:"icrc"`
}

// FieldView is a run of bits of a frame. The fields of a packet cover every bit once.
type FieldView struct {
	Header  string `json:"header"`
	Name    string `json:"name"`
	Bit     int    `json:"bit"`
	Width   int    `json:"width"`
	Value   string `json:"value"` // hex: one digit per four bits begun
	About   string `json:"about"`
	Meaning string `json:"meaning,omitempty"`
}

// ICRCView compares the ICRC in a packet with the one that the receiver computes.
type ICRCView struct {
	Carried  string `json:"carried"`
	Computed string `json:"computed"`
	Right    bool   `json:"right"`
}

// Packet describes a packet in detail.
func (s *Session) Packet(id int) (PacketDetail, error) {
	all := s.world.Packets()
	if id < 1 || id > len(all) {
		return PacketDetail{}, errors.Errorf("packet %d: the packets are 1 to %d", id, len(all))
	}
	p := all[id-1]
	d := PacketDetail{Packet: s.packetView(p), Frame: hex.EncodeToString(p.Frame)}
	for _, f := range p.Fields() {
		v := FieldView{Header: f.Header, Name: f.Name, Bit: f.Bit, Width: f.Width, About: f.About, Meaning: f.Meaning}
		if f.Bytes != nil {
			v.Value = hex.EncodeToString(f.Bytes)
		} else {
			v.Value = fmt.Sprintf("%0*x", (f.Width+3)/4, f.Value)
		}
		d.Fields = append(d.Fields, v)
	}
	carried, computed := p.ICRC()
	inFrame := func(icrc uint32) string { return fmt.Sprintf("0x%08x", bits.ReverseBytes32(icrc)) } // as the field has it
	d.ICRC = ICRCView{inFrame(carried), inFrame(computed), carried == computed}
	return d, nil
}
