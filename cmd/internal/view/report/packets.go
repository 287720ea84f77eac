// Packets as the page has them.

package report

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"time"

	"github.com/rawverbs/rawverbs/softroce/dissect"
)

// packetData is a packet as the page has it. Times are those of the record's events.
type packetData struct {
	From     string `json:"from"`
	QPN      string `json:"qpn"`                 // of the receiver
	SenderQP string `json:"sender_qp,omitempty"` // of the sender, if that is known
	PSN      uint32 `json:"psn"`
	Opcode   string `json:"opcode"`
	Response bool   `json:"response,omitempty"`
	Failed   bool   `json:"failed,omitempty"`
	Again    bool   `json:"again,omitempty"`
	Probe    bool   `json:"probe,omitempty"` // a tail-loss probe
	Lost     bool   `json:"lost,omitempty"`
	Bytes    int    `json:"bytes"`
	Carries  string `json:"carries,omitempty"`
	Sent     string `json:"sent,omitempty"`
	Received string `json:"received,omitempty"`
	Event    *int   `json:"event,omitempty"` // the index of the request's wr.posted
	Shape    int    `json:"shape"`
	Head     string `json:"head"` // hex, from the IP header on
	icrc
	Meanings map[string]string `json:"meanings,omitempty"` // by the index of the field in the shape
}

// icrc is the ICRC of a packet, as its field has it: hex. Carried is "" if the capture has cut the packet. Computed is "" if
// the ICRC is right, otherwise what the receiver computes.
type icrc struct {
	Carried  string `json:"icrc,omitempty"`
	Computed string `json:"icrc_computed,omitempty"`
}

func icrcOf(p *dissect.Packet) (i icrc) {
	carried, computed, whole := p.ICRC()
	inFrame := func(icrc uint32) string { return fmt.Sprintf("0x%08x", bits.ReverseBytes32(icrc)) }
	if whole {
		i.Carried = inFrame(carried)
	}
	if carried != computed {
		i.Computed = inFrame(computed)
	}
	return i
}

// shapeData is the fields that packets of the same opcode have.
type shapeData struct {
	Fields []fieldData `json:"fields"`
}

type fieldData struct {
	Header string `json:"header"`
	Name   string `json:"name"`
	Bit    int    `json:"bit"`
	Width  int    `json:"width"`
	About  string `json:"about"`
}

const timeLayout = "2006-01-02T15:04:05.000000000Z"

// shape returns the index of a packet's shape, and what the values of its fields mean, by the index
// of the field. Packets of one opcode have the same fields.
func (r *Report) shape(p *dissect.Packet) (index int, meanings map[string]string) {
	fields := p.Fields()
	meanings = map[string]string{}
	for i, f := range fields {
		if f.Meaning != "" {
			meanings[strconv.Itoa(i)] = f.Meaning
		}
	}
	kind := fmt.Sprint(p.Opcode, p.Headers)
	index, known := r.shapeOf[kind]
	if known {
		return index, meanings
	}
	var s shapeData
	for _, f := range fields {
		s.Fields = append(s.Fields, fieldData{f.Header, f.Name, f.Bit, f.Width, f.About})
	}
	index = len(r.shapes)
	r.shapeOf[kind] = index
	r.shapes = append(r.shapes, s)
	return index, meanings
}

// packetsData makes the page's packets.
func packetsData(packets []joined) (all []packetData) {
	for i := range packets {
		j := &packets[i]
		d := packetData{
			From: j.from, QPN: hex24(j.to.qpn), PSN: j.PSN, Opcode: j.Opcode, Response: j.Response, Failed: j.Failed, Again: j.again, Probe: j.probe, Lost: j.lost,
			Bytes: j.Payload, Carries: j.Carries, Sent: timeText(j.sent), Received: timeText(j.received), Shape: j.shape, Head: j.head, Meanings: j.meanings,
		}
		d.icrc = j.icrc
		if j.other != nil && (j.icrc.Carried == "" || j.other.icrc.Computed != "") { // cut, or damaged on the way
			d.icrc = j.other.icrc
		}
		if j.to.peer != nil {
			d.SenderQP = hex24(j.to.peer.qpn)
		}
		if requester := j.requester(); requester != nil {
			if n := requester.requestOf(j.PSN); n >= 0 {
				d.Event = &requester.requests[n].event
			}
		}
		all = append(all, d)
	}
	return all
}

// hex24 writes a number of 24 bits as records have it.
func hex24(n uint32) string {
	return "0x" + hex.EncodeToString([]byte{byte(n >> 16), byte(n >> 8), byte(n)})
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}
