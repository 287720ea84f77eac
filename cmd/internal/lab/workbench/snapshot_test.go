package workbench

import (
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
)

// TestICRCInFrameOrder shows that a packet has one ICRC: the field and the comparison have the same digits.
func TestICRCInFrameOrder(t *testing.T) {
	l, _ := findLesson("loss")
	s := played(t, Setup{}, script(l.Start, l.Solution))
	wrong := 0
	for id := 1; id <= len(s.world.Packets()); id++ {
		d, err := s.Packet(id)
		if err != nil {
			t.Fatal(err)
		}
		field := d.Fields[len(d.Fields)-1]
		if field.Header != "ICRC" || "0x"+field.Value != d.ICRC.Carried || len(d.ICRC.Computed) != 10 || d.ICRC.Right != (d.ICRC.Carried == d.ICRC.Computed) {
			t.Errorf("packet %d: the field %s is %s, the comparison %+v", id, field.Header, field.Value, d.ICRC)
		}
		if !d.ICRC.Right {
			wrong++
		}
	}
	if wrong != 1 {
		t.Errorf("%d packets have a wrong ICRC, want the one that was damaged", wrong)
	}
}

// TestSourceOfCountedPSNs shows that a PSN is nobody's choice any more once the device has counted on.
func TestSourceOfCountedPSNs(t *testing.T) {
	s := played(t, Setup{}, script(connected(nil, nil), recv("server", 1, 0, 64)))
	source := func(host int, bit string) string {
		for _, o := range s.Snapshot(0).Hosts[host].Objects {
			if o.QP != nil {
				i := slices.IndexFunc(o.QP.Attrs, func(a AttrView) bool { return a.Bit == bit })
				return o.QP.Attrs[i].Source.From
			}
		}
		return ""
	}
	compare := func(when string, want ...string) {
		t.Helper()
		got := []string{source(client, "SQ_PSN"), source(client, "RQ_PSN"), source(server, "SQ_PSN"), source(server, "RQ_PSN")}
		if !slices.Equal(got, want) {
			t.Errorf("%s the PSNs are from %v, want %v", when, got, want)
		}
	}
	compare("before the SEND", FromTold, FromPeer, FromTold, FromPeer)
	for _, a := range script(send(1, 8), run) {
		if _, err := s.Do(a); err != nil {
			t.Fatal(err)
		}
	}
	compare("after the SEND", FromCounted, FromPeer, FromTold, FromCounted)
}

// TestSourceOfPSNTurnedBack shows that the SQ_PSN which an RNR NAK has turned back is not what this end told its peer,
// although the number is the same.
func TestSourceOfPSNTurnedBack(t *testing.T) {
	s := played(t, Setup{}, script(connected(nil, nil), send(1, 8), step, step))
	for _, o := range s.Snapshot(0).Hosts[client].Objects {
		if o.QP == nil {
			continue
		}
		i := slices.IndexFunc(o.QP.Attrs, func(a AttrView) bool { return a.Bit == "SQ_PSN" })
		if a := o.QP.Attrs[i]; o.QP.PSN.Next != *o.QP.ToldPSN || a.Source.From != FromCounted {
			t.Errorf("after an RNR NAK SQ_PSN is %s, from %q", a.Text, a.Source.From)
		}
	}
}

// TestChangedByMask shows that a move lists each attribute of its mask, even one that has the value of RESET.
func TestChangedByMask(t *testing.T) {
	s := played(t, Setup{}, script(objects("client"), toInit("client")))
	for _, o := range s.Snapshot(0).Hosts[client].Objects {
		if o.QP == nil {
			continue
		}
		var got []string
		for _, a := range o.QP.Attrs {
			if a.Changed {
				got = append(got, a.Bit)
			}
		}
		if want := []string{"STATE", "ACCESS_FLAGS", "PKEY_INDEX", "PORT"}; !slices.Equal(got, want) {
			t.Errorf("the move has changed %v, want %v", got, want)
		}
	}
}

// TestForbiddenWithoutPeer moves a queue pair with the bits of what the peer has not told: the device refuses them.
func TestForbiddenWithoutPeer(t *testing.T) {
	for bit, value := range map[string]string{"DEST_QPN": "peer", "AV": "peer", "PATH_MTU": "peer", "RQ_PSN": "peer", "SQ_PSN": "own"} {
		s := played(t, Setup{}, script(objects("client"), move("client", theQP, "INIT", initRC.changed(values{bit: value}))))
		r := s.results[len(s.results)-1].Refused
		if r == nil || r.Transition == nil || !slices.Equal(r.Transition.Illegal, []string{bit}) {
			t.Errorf("%s: %+v", bit, r)
		}
	}
}

// TestTablesOfMoves compares the moves of the tables with those of qpstate. An RC queue pair is never in SQE.
func TestTablesOfMoves(t *testing.T) {
	tables := AllTables()
	for _, typ := range qpstate.Types() {
		var want []string
		for _, m := range qpstate.Transitions(typ) {
			if typ != qpstate.RC || m.From != qpstate.SQE {
				want = append(want, m.Name())
			}
		}
		var got []string
		for _, m := range tables.Transitions[typ.Name()] {
			got = append(got, m.From+"→"+m.To)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the moves %v, want %v", typ.Name(), got, want)
		}
	}
}
