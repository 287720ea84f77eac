package simulated_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestSelectiveRepeat loses the second of three packets and duplicates the third, with each setting of the two hosts.
func TestSelectiveRepeat(t *testing.T) {
	for _, test := range []struct {
		client, server bool
		again          string // why each packet was sent again
		check, outcome string // of the packet behind the gap
		twin           string // the outcome of its copy
	}{
		{false, false, "nak nak", "0x000001 is expected first", "sequence_naks", "drop_gap"},
		{false, true, "nak nak", "kept until 0x000001 comes", "kept", "kept"},
		{true, false, "nak ack", "0x000001 is expected first", "sequence_naks", "drop_gap"},
		{true, true, "nak", "kept until 0x000001 comes", "kept", "kept"},
	} {
		w, ends := pair(t, simulated.Config{})
		w.SetSelectiveRepeat(simulated.Client, test.client)
		w.SetSelectiveRepeat(simulated.Server, test.server)
		send(t, ends, 3000)
		check(t, w.Drop(2))
		check(t, w.Duplicate(3))
		for w.Step() {
		}
		arrived(t, ends, 3000)
		var again []string
		for _, p := range w.Packets() {
			if p.Why.Again.Kind != "" {
				again = append(again, p.Why.Again.Kind)
			}
		}
		third, twin := w.Packets()[2], w.Packets()[3]
		if got := strings.Join(again, " "); got != test.again || third.Check != test.check || third.Outcome != test.outcome || w.SelectiveRepeat(simulated.Client) != test.client {
			t.Errorf("client %v, server %v: sent again for %q, want %q; the third packet's check is %q, want %q, its outcome %q, want %q", test.client, test.server, got, test.again, third.Check, test.check, third.Outcome, test.outcome)
		}
		if twin.CopyOf != 3 || twin.Outcome != test.twin {
			t.Errorf("client %v, server %v: the copy's outcome is %q, want %q", test.client, test.server, twin.Outcome, test.twin)
		}
	}
}

// TestProbe loses packets of a message of four, the last three in flight, or a READ, so that a tail-loss probe is due.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name  string
		read  bool
		drop  []int  // the packets that are lost
		again string // why each packet was sent again, and of which packet of the message
	}{
		{"the last packet", false, []int{6}, "probe: 0, probe: 0, ack: 4"},
		{"a packet and the last one", false, []int{4, 6}, "nak: 2, probe: 0, ack: 4"},
		{"a packet twice", false, []int{4, 8}, "nak: 2, probe: 2"},
		{"a READ", true, []int{3}, "probe: 1"},
	} {
		w, ends := pair(t, simulated.Config{})
		send(t, ends, 100)
		for w.Step() {
		}
		arrived(t, ends, 100)
		for _, h := range simulated.Hosts {
			w.SetSelectiveRepeat(h, true)
		}
		if test.read {
			peer := ends[simulated.Server].mr
			check(t, ends[simulated.Client].qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{ends[simulated.Client].mr.SGE(0, 8)}, RemoteAddr: peer.Addr(), RKey: peer.RKey()}}))
		} else {
			send(t, ends, 4000)
		}
		lost := 0
		for more := true; more; more = w.Step() {
			for _, p := range w.InFlight() {
				if lost < len(test.drop) && p.ID == test.drop[lost] {
					check(t, w.Drop(p.ID))
					lost++
				}
			}
		}
		var again []string
		for _, p := range w.Packets() {
			if p.Why.Again.Kind != "" {
				again = append(again, fmt.Sprintf("%s: %d", p.Why.Again.Kind, p.Why.Index))
			}
		}
		if got := strings.Join(again, ", "); got != test.again || lost != len(test.drop) {
			t.Errorf("%s: sent again: %s, want %s; %d packets were dropped", test.name, got, test.again, lost)
		}
	}
}

// TestMark marks a packet on the wire: the server answers with a CNP.
func TestMark(t *testing.T) {
	w, ends := pair(t, simulated.Config{})
	send(t, ends, 100)
	check(t, w.Mark(1))
	for w.Step() {
	}
	arrived(t, ends, 100)
	first, second := w.Packets()[0], w.Packets()[1]
	if first.Outcome != "congestion_marks" || !first.Marked || second.Why.Kind != "cnp" || second.Why.Answers != 1 || second.IsRequest() {
		t.Errorf("packet 1: %q, packet 2: %+v", first.Outcome, second.Why)
	}
	if err := w.Mark(1); err == nil {
		t.Error("a packet that has arrived was marked")
	}
}

// TestICRC inverts each bit of a packet. The ICRC covers all but the fields that change on the way.
func TestICRC(t *testing.T) {
	w, ends := pair(t, simulated.Config{})
	send(t, ends, 8)
	p := w.Packets()[0]
	changing := map[string]bool{"DSCP": true, "ECN": true, "TTL": true, "Checksum": true, "Header Checksum": true}
	for _, f := range p.Fields() {
		for bit := f.Bit; bit < f.Bit+f.Width; bit++ {
			check(t, w.Flip(p.ID, bit))
			carried, computed := p.ICRC()
			masked := changing[f.Name] || f.Header == "BTH" && f.Bit/8 == simulated.HeaderBits/8+4
			if (carried == computed) != masked {
				t.Errorf("%s, %s, bit %d: the ICRC is right: %v, want %v", f.Header, f.Name, bit, carried == computed, masked)
			}
			check(t, w.Flip(p.ID, bit))
		}
	}
	for w.Step() {
	}
	arrived(t, ends, 8)
}
