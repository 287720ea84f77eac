package simulated_test

import (
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/softroce/simulated"
)

// TestSelectiveRepeat loses the second of three packets, with each setting of the two hosts.
func TestSelectiveRepeat(t *testing.T) {
	for _, test := range []struct {
		client, server bool
		again          string // why each packet was sent again
		check, outcome string // of the packet behind the gap
	}{
		{false, false, "nak nak", "0x000001 is expected first", "sequence_naks"},
		{false, true, "nak nak", "kept until 0x000001 comes", "kept"},
		{true, false, "nak ack", "0x000001 is expected first", "sequence_naks"},
		{true, true, "nak", "kept until 0x000001 comes", "kept"},
	} {
		w, ends := pair(t, simulated.Config{})
		w.SetSelectiveRepeat(simulated.Client, test.client)
		w.SetSelectiveRepeat(simulated.Server, test.server)
		send(t, ends, 3000)
		check(t, w.Drop(2))
		for w.Step() {
		}
		arrived(t, ends, 3000)
		var again []string
		for _, p := range w.Packets() {
			if p.Why.Again.Kind != "" {
				again = append(again, p.Why.Again.Kind)
			}
		}
		third := w.Packets()[2]
		if got := strings.Join(again, " "); got != test.again || third.Check != test.check || third.Outcome != test.outcome || w.SelectiveRepeat(simulated.Client) != test.client {
			t.Errorf("client %v, server %v: sent again for %q, want %q; the third packet's check is %q, want %q, its outcome %q, want %q", test.client, test.server, got, test.again, third.Check, test.check, third.Outcome, test.outcome)
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
