// Why a packet was sent, and what its receiver made of it. Both are found by comparing a queue
// pair before and after.

package simulated

import (
	"fmt"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// Reason is why a packet was sent.
type Reason struct {
	Kind    string // "request", or what a responder sends: "ack", "nak", "rnr nak", "response"; "cnp"
	QPN     uint32 // of the sender
	Answers int    // a responder's packet: the ID of the request that it answers
	HasWR   bool   // a requester's packet: WR, Opcode, Index and Count are valid
	WR      uint64 // the ID of the work request
	Opcode  verbs.Opcode
	Index   int    // this is packet Index of Count, from 1 on
	Count   int    // packets of the work request; of a READ, of its response
	Again   Repeat // why a packet that was sent before is sent again; Kind "" if it is new
	Text    string // all of it as a sentence
}

// Repeat is why a requester sends again.
type Repeat struct {
	Kind   string
	Packet int // the ID of the packet that caused it; 0: none
}

// The kinds of Repeat.
const (
	AfterTimeout = "timeout"  // no answer came in time
	AfterRNRWait = "rnr wait" // the wait that an RNR NAK asked for is over
	AfterNAK     = "nak"      // a NAK named a missing packet
	AfterGap     = "gap"      // an answer showed that an earlier response was lost
	AfterACK     = "ack"      // selective repeat: an ACK showed that the responder has nothing behind it
	AfterProbe   = "probe"    // selective repeat: a tail-loss probe, or a packet that it sends again
)

// reason finds why q has sent p. before is q before that.
func (w *World) reason(q *qp, before transport.QPView, p *Packet) Reason {
	r := Reason{QPN: q.QPN()}
	parsed, err := packet.Parse(p.Data())
	if err != nil {
		return r
	}
	switch {
	case p.isNotice():
		r.Kind, r.Answers = "cnp", q.cause
		r.Text = fmt.Sprintf("a switch has marked packet %d: the sender shall slow down", q.cause)
		return r
	case parsed.Opcode().IsResponse():
		r.answer(parsed, q.cause)
		return r
	}
	r.Kind, r.Text = "request", "a request"
	psn := parsed.BTH().PSN()
	seq := before.Next + int64(psn.Sub(packet.NewPSN(uint32(before.Next))))
	reliable := parsed.Opcode().Transport() == packet.RC
	if reliable && seq < before.Una { // of no work request, even if its number is that of a packet of one
		r.Again = Repeat{Kind: AfterProbe}
		r.Text = "a tail-loss probe without data: its number is served already, so the responder answers with the number that it expects"
		return r
	}
	if s, ok := sendOf(q.Inspect().Sends, seq); ok {
		r.of(s, seq)
	} else if s, ok = sendOf(before.Sends, seq); ok {
		r.of(s, seq)
	} else if s, ok = nextOf(before, parsed.Opcode()); ok { // UC and UD: it is complete already
		mtu := before.Attr.PathMTU.Bytes()
		s.First, s.Packets = seq, max(1, int64((s.Length+mtu-1)/mtu))
		r.of(s, seq)
	}
	if reliable && seq < before.Max {
		r.Again = q.again
		r.Text += ", sent again: " + r.Again.text()
	}
	return r
}

// sendOf returns the started request that packet seq belongs to.
func sendOf(sends []transport.SendView, seq int64) (s transport.SendView, ok bool) {
	for _, s := range sends {
		if s.Started && s.First <= seq && seq < s.First+s.Packets {
			return s, true
		}
	}
	return s, false
}

// nextOf returns the oldest request that is not started and sends packets of an opcode.
func nextOf(v transport.QPView, o packet.Opcode) (s transport.SendView, ok bool) {
	for _, s := range v.Sends {
		tooLong := o.Transport() == packet.UD && s.Length > v.Attr.PathMTU.Bytes()
		if !s.Started && o.Serves(s.WR.Opcode) && !tooLong {
			return s, true
		}
	}
	return s, false
}

// of says that the packet is of a work request.
func (r *Reason) of(s transport.SendView, seq int64) {
	r.HasWR, r.WR, r.Opcode, r.Index, r.Count = true, s.WR.ID, s.WR.Opcode, int(seq-s.First)+1, int(s.Packets)
	r.Text = fmt.Sprintf("work request %d, %v, %d bytes", r.WR, r.Opcode, s.Length)
	switch {
	case r.Opcode == verbs.OpRDMARead && r.Count > 1:
		r.Text += fmt.Sprintf(": asks for the response from its packet %d of %d on", r.Index, r.Count)
	case r.Count > 1:
		r.Text += fmt.Sprintf(": packet %d of %d", r.Index, r.Count)
	}
}

// answer says that the packet answers the packet cause.
func (r *Reason) answer(p packet.Packet, cause int) {
	r.Answers, r.Kind = cause, "response"
	to := fmt.Sprintf("packet %d", cause)
	h := p.AETH()
	switch {
	case h != nil && h.Syndrome().Kind() == packet.KindRNR:
		r.Kind = "rnr nak"
		r.Text = fmt.Sprintf("no receive is posted for %s; the sender shall wait %v", to, qpstate.RNRTimer(h.Syndrome().Value()))
	case h != nil && h.Syndrome().Kind() == packet.KindNAK:
		r.Kind, r.Text = "nak", nakTexts[h.Syndrome()]+" ("+to+")"
	case p.Opcode() == packet.RCAcknowledge:
		r.Kind, r.Text = "ack", fmt.Sprintf("acknowledges every packet up to PSN 0x%06x, in answer to %s", p.BTH().PSN(), to)
	case len(p.Payload()) > 0:
		r.Text = fmt.Sprintf("%d of the bytes that %s asked for", len(p.Payload()), to)
	default:
		r.Text = "the result of " + to
	}
}

var nakTexts = map[packet.Syndrome]string{
	packet.NAKPSNSequence:       "a packet is missing: the responder expected the PSN of this NAK",
	packet.NAKInvalidRequest:    "the request is invalid: its opcode, its length, or a right that the queue pair does not grant",
	packet.NAKRemoteAccess:      "the request has no right to this memory: key, bounds, rights or domain",
	packet.NAKRemoteOperational: "the responder could not execute the request, for a reason on its side",
}

func (r Repeat) text() string {
	switch r.Kind {
	case AfterTimeout:
		return "no acknowledgement came within the timeout"
	case AfterRNRWait:
		return "the wait that the RNR NAK asked for is over"
	case AfterNAK:
		return fmt.Sprintf("packet %d, a NAK, reported a missing packet", r.Packet)
	case AfterGap:
		return fmt.Sprintf("packet %d shows that an earlier response was lost", r.Packet)
	case AfterACK:
		return fmt.Sprintf("packet %d, an ACK, shows that the responder has nothing behind it", r.Packet)
	case AfterProbe:
		return "no answer came for some round trips, and this one asks for it"
	}
	return "the requester went back"
}

// Outcomes of packets that did not simply do their work. The names of the engine's counters (drop_…,
// duplicates, sequence_naks, rnr_naks, congestion_notes) are outcomes too.
const (
	OutcomeIP   = "bad_ip"   // the IP header's checksum is wrong
	OutcomeUDP  = "bad_udp"  // the UDP checksum is wrong
	OutcomeICRC = "bad_icrc" // the ICRC is wrong
	OutcomeKept = "kept"     // it is ahead of a missing packet: the counter transport.Kept

	OutcomeGap      = "drop_gap"            // as sequence_naks, but that NAK was sent for an earlier packet
	OutcomeNoSuch   = "drop_nak"            // a NAK of a packet that the requester has not sent, or that was acknowledged
	OutcomeInvalid  = "refused_invalid"     // the responder has answered with NAK invalid request
	OutcomeAccess   = "refused_access"      // … remote access error
	OutcomeOperates = "refused_operational" // … remote operational error
	OutcomeRepeated = "refused_before"      // the queue pair was in ERR: the responder has repeated the NAK that ended it
)

// refusals are the outcomes of the requests that a NAK refuses.
var refusals = map[packet.Syndrome]string{
	packet.NAKInvalidRequest: OutcomeInvalid, packet.NAKRemoteAccess: OutcomeAccess, packet.NAKRemoteOperational: OutcomeOperates,
}

// refuses notes that p, a NAK, has refused the request that it answers.
func (w *World) refuses(p *Packet) {
	parsed, err := packet.Parse(p.Data())
	if err != nil || p.Why.Kind != "nak" || p.Why.Answers == 0 {
		return
	}
	request := w.packets[p.Why.Answers-1]
	switch outcome, refused := refusals[parsed.AETH().Syndrome()]; {
	case refused && request.PSN() == p.PSN():
		request.Outcome = outcome
	case refused && packet.NewPSN(request.PSN()).Sub(packet.NewPSN(p.PSN())) > 0: // an earlier one was served, and its answer lost
		request.Outcome = OutcomeRepeated
		p.Why.Text = fmt.Sprintf("repeats the NAK that ended the queue pair, which the peer may have missed (packet %d)", request.ID)
	}
}

// NoRegion begins the check that a request fails if no region and no bound window has its key.
const NoRegion = transport.NoRegion

const ipBits = 8 * 20

// arrive gives a packet to its receiver.
func (w *World) arrive(p *Packet) {
	to := w.devices[p.From.Peer()]
	w.land(p, Delivered)
	p.Arrives = w.now
	for _, bit := range p.Flipped {
		switch {
		case bit < ipBits:
			p.Outcome = OutcomeIP
			return
		case bit < HeaderBits:
			p.Outcome = OutcomeUDP
			return
		}
	}
	data := p.Data()
	if carried, computed := p.ICRC(); carried != computed {
		p.Outcome = OutcomeICRC
		return
	}
	before := to.counters()
	var q *qp
	var was transport.QPView
	var check string
	if found := to.engine.QP((*packet.BTH)(data).DestQPN()); found != nil {
		q = found.User.(*qp)
		q.cause = p.ID
		was, check = q.Inspect(), q.failedCheck(p)
	}
	to.engine.Receive(w.now, []transport.Datagram{{Data: data, Src: w.devices[p.From].addr, Dst: to.addr, TOS: p.Frame[1], TTL: p.Frame[8]}})
	after := to.counters()
	for c, name := range transport.Counters() {
		if after[c] != before[c] && telling(c) {
			p.Outcome = name
		}
	}
	if after[transport.Kept] != before[transport.Kept] { // and not dropped, even if it has caused a NAK
		p.Outcome = OutcomeKept
	}
	if q != nil && p.Outcome == "" && p.isAhead(was) { // no counter counts the copy of a packet that is kept already
		p.Outcome = OutcomeKept
	}
	if q != nil && p.Outcome == transport.DropStray.String() {
		switch {
		case p.isNAK():
			p.Outcome = OutcomeNoSuch
		case p.isAhead(was):
			p.Outcome = OutcomeGap
		}
	}
	p.Check = p.failed(was, check, q != nil && q.Inspect().Attr.State == qpstate.Error && was.Attr.State != qpstate.Error)
	if q != nil && after[transport.Retransmits] != before[transport.Retransmits] {
		q.again = Repeat{Kind: AfterGap, Packet: p.ID}
		sends := q.Inspect().Sends
		if parsed, err := packet.Parse(data); err == nil && parsed.AETH() != nil {
			switch {
			case parsed.AETH().Syndrome().Kind() == packet.KindNAK:
				q.again.Kind = AfterNAK
			case len(sends) > 0 && !packet.HasResponse(sends[0].WR.Opcode):
				q.again.Kind = AfterACK
			}
		}
	}
}

// isNAK reports whether the packet is a NAK, but not an RNR NAK.
func (p *Packet) isNAK() bool {
	parsed, err := packet.Parse(p.Data())
	return err == nil && parsed.AETH() != nil && parsed.AETH().Syndrome().Kind() == packet.KindNAK
}

// isAhead reports whether the packet is a request of RC that comes before the one that the responder expects.
func (p *Packet) isAhead(was transport.QPView) bool {
	psn, expected := packet.NewPSN(p.PSN()), packet.NewPSN(uint32(was.Expected))
	return packet.Opcode(p.Data()[0]).Transport() == packet.RC && p.IsRequest() && was.Attr.State != qpstate.Error && psn.Sub(expected) > 0
}

// failedCheck returns the check of q's responder that a request fails.
func (q *qp) failedCheck(p *Packet) string {
	parsed, err := packet.Parse(p.Data())
	if err != nil {
		return ""
	}
	return q.FailedCheck(parsed)
}

// failed returns the check that a delivered packet has failed. was is the queue pair before, check the responder's
// objection, and refused says that the packet has moved the queue pair to ERR.
func (p *Packet) failed(was transport.QPView, check string, refused bool) string {
	expected := fmt.Sprintf("0x%06x", uint32(was.Expected)&0xffffff)
	switch p.Outcome {
	case OutcomeKept:
		if p.IsRequest() {
			return "kept until " + expected + " comes"
		}
	case transport.Duplicates.String():
		return "before " + expected + ": a duplicate"
	case transport.SequenceNAKs.String(), OutcomeGap:
		return expected + " is expected first"
	case OutcomeNoSuch:
		return fmt.Sprintf("no packet 0x%06x waits for an answer", p.PSN())
	case transport.DropUnreliable.String():
		return check
	case transport.DropMismatch.String():
		if parsed, err := packet.Parse(p.Data()); err == nil && parsed.DETH() != nil && parsed.DETH().QKey() != was.Attr.QKey {
			return fmt.Sprintf("its Q_Key is not %#x", was.Attr.QKey)
		}
	case "":
		if refused && p.IsRequest() {
			return check
		}
	}
	return ""
}

// telling reports whether a counter says something about one packet.
func telling(c transport.Counter) bool {
	switch c {
	case transport.RxPackets, transport.TxPackets, transport.Retransmits, transport.Timeouts, transport.Probes:
		return false
	}
	return true
}

// counters returns the engine's counters, by number.
func (d *device) counters() (all []uint64) {
	for c := range transport.Counters() {
		all = append(all, d.engine.Counter(c))
	}
	return all
}
