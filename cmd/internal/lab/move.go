// One move of a queue pair, with every attribute.

package lab

import (
	"fmt"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/qpstate"
)

// MoveReport is the report of one move.
type MoveReport struct {
	Type       string      `json:"type"`
	From       string      `json:"from"`
	To         string      `json:"to"`
	About      string      `json:"about"`
	Mask       string      `json:"mask"` // the smallest mask: STATE and the required bits
	Attributes []Attribute `json:"attributes"`
}

// Attribute is a bit of the mask in one move.
type Attribute struct {
	Name  string   `json:"name"`
	Bit   string   `json:"bit"`
	Rule  string   `json:"rule"` // required, optional or forbidden
	About string   `json:"about"`
	Usual string   `json:"usual,omitempty"` // a usual value
	Moves []string `json:"moves,omitempty"` // of a forbidden bit: the moves that take it
}

// The rules.
const (
	required  = "required"
	optional  = "optional"
	forbidden = "forbidden"
)

// Move returns the attributes of one move. The names of type and states are those of C, with
// or without their prefixes. An illegal move is an error that names the legal ones.
func Move(typ, from, to string) (*MoveReport, error) {
	t, err := parseType(typ)
	if err != nil {
		return nil, err
	}
	a, err := parseState(from)
	if err != nil {
		return nil, err
	}
	b, err := parseState(to)
	if err != nil {
		return nil, err
	}
	move, ok := qpstate.Lookup(t, a, b)
	if !ok {
		return nil, noMove(t, a, b)
	}
	r := &MoveReport{Type: t.Name(), From: a.Name(), To: b.Name(), About: purpose(move), Mask: fmt.Sprintf("%#x", uint32(qpstate.MaskState|move.Required))}
	for bit := qpstate.Mask(1); bit != 0; bit <<= 1 {
		if bit.About() == "" {
			continue // libibverbs has no such bit
		}
		attr := Attribute{Name: bit.Name(), Bit: fmt.Sprintf("%#x", uint32(bit)), About: bit.About(), Rule: forbidden}
		switch {
		case bit == qpstate.MaskState, bit&move.Required != 0:
			attr.Rule, attr.Usual = required, usual(bit, move)
		case bit&move.Optional != 0:
			attr.Rule, attr.Usual = optional, usual(bit, move)
		default:
			attr.Moves = takers(t, bit)
		}
		r.Attributes = append(r.Attributes, attr)
	}
	return r, nil
}

// takers returns the moves of a type that take a bit.
func takers(t qpstate.Type, bit qpstate.Mask) []string {
	names := []string{}
	for _, move := range qpstate.Transitions(t) {
		if (move.Required|move.Optional)&bit != 0 {
			names = append(names, move.Name())
		}
	}
	return names
}

// purpose says what a move does.
func purpose(move qpstate.Transition) string {
	connected := move.Type != qpstate.UD
	switch {
	case move.To == qpstate.Reset:
		return "The queue pair becomes as new. What is posted is dropped without a completion."
	case move.To == qpstate.Error:
		return "The queue pair stops. What is posted completes with WR_FLUSH_ERR."
	case move.From == move.To:
		return "The state stays; only attributes change."
	case move.To == qpstate.Init:
		return "The queue pair is bound to a port. Receives may be posted from now on."
	case move.To == qpstate.RTR && connected:
		return "The queue pair gets its peer. It accepts the peer's messages from now on."
	case move.To == qpstate.RTR:
		return "The queue pair accepts datagrams from now on."
	case move.From == qpstate.RTR:
		return "Sends may be posted from now on."
	case move.To == qpstate.SQD:
		return "The send queue stops after the sends that have begun. Attributes may change then."
	}
	return "The send queue works again."
}

// usual returns a usual value of an attribute, or "".
func usual(bit qpstate.Mask, move qpstate.Transition) string {
	if bit == qpstate.MaskState {
		return move.To.Name()
	}
	return usualValues[bit]
}

var usualValues = func() map[qpstate.Mask]string {
	rtr, rts := (qpstate.Endpoint{}).Connect(qpstate.Endpoint{}, qpstate.AHAttr{})
	return map[qpstate.Mask]string{
		qpstate.MaskCurState:         "leave it out",
		qpstate.MaskEnSQDAsyncNotify: "1, if the program waits for IBV_EVENT_SQ_DRAINED",
		qpstate.MaskAccessFlags:      "REMOTE_WRITE|REMOTE_READ, or 0 if the peer only SENDs",
		qpstate.MaskPKeyIndex:        "0",
		qpstate.MaskPort:             "1: ports count from 1",
		qpstate.MaskQKey:             "0x11111111, the same at both ends; below 0x80000000",
		qpstate.MaskAV:               "is_global 1, dgid the peer's GID, sgid_index from \"rdma_lab gids\", port_num the one of INIT, hop_limit 64",
		qpstate.MaskPathMTU:          "the smaller active MTU of both ends; 1024 on Ethernet with 1500 bytes",
		qpstate.MaskTimeout:          rts.Value(qpstate.MaskTimeout),
		qpstate.MaskRetryCnt:         rts.Value(qpstate.MaskRetryCnt) + ", the most",
		qpstate.MaskRNRRetry:         rts.Value(qpstate.MaskRNRRetry),
		qpstate.MaskRQPSN:            "the peer's SQ_PSN",
		qpstate.MaskMaxRdAtomic:      "the peer's MAX_DEST_RD_ATOMIC; at most the device's max_qp_init_rd_atom",
		qpstate.MaskAltPath:          "leave it out on RoCE",
		qpstate.MaskPathMigState:     "leave it out on RoCE",
		qpstate.MaskMinRNRTimer:      rtr.Value(qpstate.MaskMinRNRTimer) + "; 0 is the longest wait, 655 ms",
		qpstate.MaskSQPSN:            "a random number of 24 bits",
		qpstate.MaskMaxDestRdAtomic:  "16; at most the device's max_qp_rd_atom; 0 refuses READs and atomics",
		qpstate.MaskDestQPN:          "the peer's qp_num",
	}
}()

// Text has the attributes by rule.
func (r *MoveReport) Text() string {
	var p columns.Page
	p.Para("", fmt.Sprintf("%s %s→%s. %s", r.Type, r.From, r.To, r.About))
	for _, rule := range []string{required, optional, forbidden} {
		head := strings.ToUpper(rule)
		if rule == required {
			head += " (mask " + r.Mask + ")"
		}
		p.Line("")
		p.Line(head)
		count := 0
		for _, a := range r.Attributes {
			if a.Rule != rule {
				continue
			}
			count++
			p.Para(fmt.Sprintf("  %-19s %-9s ", a.Name, a.Bit), a.About)
			indent := strings.Repeat(" ", 32)
			if a.Usual != "" {
				p.Para(indent+"usual: ", a.Usual)
			}
			switch {
			case rule != forbidden:
			case len(a.Moves) > 0:
				p.Para(indent+"taken by: ", strings.Join(a.Moves, ", "))
			default:
				p.Line(indent + "taken by: no move of " + r.Type)
			}
		}
		if count == 0 {
			p.Line("  none")
		}
	}
	return p.String()
}
