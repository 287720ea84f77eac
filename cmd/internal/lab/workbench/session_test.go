package workbench

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

func snapshotText(t *testing.T, s *Session) []byte {
	t.Helper()
	text, err := json.Marshal(s.Snapshot(0))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// every is the sessions of all lessons and mistakes.
func every() map[string]File {
	all := map[string]File{}
	for _, l := range lessons() {
		all["lesson "+l.ID] = File{Setup: Setup{Lesson: l.ID}, Actions: script(l.Start, l.Solution)}
	}
	for _, m := range mistakeViews() {
		all["mistake "+m.Name] = File{Actions: m.Actions}
	}
	return all
}

// TestDeterminism plays each session twice, takes actions back, goes through a link, and compares
// the snapshots byte for byte.
func TestDeterminism(t *testing.T) {
	for name, f := range every() {
		t.Run(name, func(t *testing.T) {
			first, second := played(t, f.Setup, f.Actions), played(t, f.Setup, f.Actions)
			want := snapshotText(t, first)
			if got := snapshotText(t, second); !bytes.Equal(got, want) {
				t.Fatal("two runs of one list differ")
			}
			link, err := first.Link()
			if err != nil {
				t.Fatal(err)
			}
			unpacked, err := ParseFile(link)
			if err != nil {
				t.Fatal(err)
			}
			if got := snapshotText(t, played(t, unpacked.Setup, unpacked.Actions)); !bytes.Equal(got, want) {
				t.Error("the session of the link differs")
			}
			for n := 0; n < len(f.Actions); n += 1 + len(f.Actions)/2 {
				back, err := played(t, f.Setup, f.Actions).Back(n)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := snapshotText(t, back), snapshotText(t, played(t, f.Setup, f.Actions[:len(f.Actions)-n])); !bytes.Equal(got, want) {
					t.Fatalf("taking back %d actions differs from not carrying them out", n)
				}
				if err := back.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSeed shows that the seed changes the numbers.
func TestSeed(t *testing.T) {
	actions := both(objects)
	if bytes.Equal(snapshotText(t, played(t, Setup{Seed: 1}, actions)), snapshotText(t, played(t, Setup{Seed: 2}, actions))) {
		t.Error("two seeds give the same snapshot")
	}
}

// TestPackets makes each packet's frame again of its fields, and checks the rest of what is said
// about it.
func TestPackets(t *testing.T) {
	opcodes := map[string]bool{}
	for name, f := range every() {
		s := played(t, f.Setup, f.Actions)
		for _, p := range s.world.Packets() {
			d, err := s.Packet(p.ID)
			if err != nil {
				t.Fatal(err)
			}
			opcodes[p.Opcode()] = true
			bits := ""
			for _, field := range d.Fields {
				if len(bits) != field.Bit {
					t.Fatalf("%s: packet %d: field %s begins at bit %d, want %d", name, p.ID, field.Name, field.Bit, len(bits))
				}
				digits := ""
				for _, c := range field.Value {
					digits += [...]string{"0000", "0001", "0010", "0011", "0100", "0101", "0110", "0111", "1000", "1001", "1010", "1011", "1100", "1101", "1110", "1111"}[strings.IndexRune("0123456789abcdef", c)]
				}
				bits += digits[len(digits)-field.Width:]
			}
			var frame []byte
			for i := 0; i+8 <= len(bits); i += 8 {
				var b byte
				for _, c := range bits[i : i+8] {
					b = b<<1 | byte(c-'0')
				}
				frame = append(frame, b)
			}
			if hex.EncodeToString(frame) != d.Frame {
				t.Errorf("%s: packet %d: the fields give %x, want %s", name, p.ID, frame, d.Frame)
			}
			if d.ICRC.Right != (len(p.Flipped) == 0) {
				t.Errorf("%s: packet %d: ICRC right: %v, with flipped bits %v", name, p.ID, d.ICRC.Right, p.Flipped)
			}
			if d.Packet.Why.Kind == "" || d.Packet.Why.Text == "" || d.Packet.Request && d.Packet.Why.WR == nil {
				t.Errorf("%s: packet %d has no reason: %+v", name, p.ID, d.Packet.Why)
			}
		}
	}
	if len(opcodes) < 15 {
		t.Errorf("the sessions have only the opcodes %v", opcodes)
	}
}

// TestRecord reads the events with the reader of package trace. The moves, those of the devices too, lead to the states.
func TestRecord(t *testing.T) {
	for name, f := range every() {
		s := played(t, f.Setup, f.Actions)
		text, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		record, err := trace.ReadRecord(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if len(record.Events) != len(s.log) || len(record.Events) == 0 {
			t.Errorf("%s: %d events, want %d", name, len(record.Events), len(s.log))
		}
		transitions, states := 0, map[string]string{}
		for i := range record.Events {
			e := &record.Events[i]
			if e.Event != "qp.transition" {
				continue
			}
			if e.Verb == "ibv_modify_qp" {
				transitions++
			}
			if qp := e.End + e.Attr("qpn").String(); e.Attr("error").Kind() != slog.KindString {
				if from := e.Attr("from").String(); states[qp] != "" && states[qp] != from {
					t.Errorf("%s: %s moves from %s, and was in %s", name, qp, from, states[qp])
				}
				states[qp] = e.Attr("to").String()
			}
		}
		for _, h := range s.hosts {
			for _, o := range h.objects {
				if o.kind != "QP" || o.closed {
					continue
				}
				qp := h.side.String() + hex24(o.qp.QPN())
				in, _ := s.world.InspectQP(h.side, o.qp)
				if states[qp] != in.Attr.State.Name() && states[qp] != "" {
					t.Errorf("%s: %s is in %s, and its last move led to %s", name, qp, in.Attr.State.Name(), states[qp])
				}
			}
		}
		want := 0
		for i := range f.Actions {
			if f.Actions[i].Do == "modify_qp" {
				want++
			}
		}
		if transitions != want {
			t.Errorf("%s: %d transitions, want %d", name, transitions, want)
		}
	}
}

// TestRefusedPosts shows that the log marks a refused request, and leaves out those behind it.
func TestRefusedPosts(t *testing.T) {
	nine := send9()
	s := played(t, Setup{}, script(both(objects), recv("server", 1, 0, 64), both(toInit), both(tell), both(toRTR), both(toRTS), post(append(nine, nine[0])...)))
	var got []string
	for _, e := range s.log {
		if e.Event == "wr.posted" {
			got = append(got, e.Message)
			if a := e.Attrs[len(e.Attrs)-1]; a.Key == "error" {
				got = append(got, a.Value.String())
			}
		}
	}
	const early, full = "ibv_post_recv", "ibv_post_send"
	if len(got) != 12 || got[0] != "post RECV" || !strings.HasPrefix(got[1], early) || got[10] != "post SEND" || !strings.HasPrefix(got[11], full) {
		t.Errorf("the log has %q", got)
	}
}

// TestSince shows that the parts of a session add up to the whole.
func TestSince(t *testing.T) {
	for name, f := range every() {
		s := played(t, f.Setup, nil)
		packets, events := map[int]PacketView{}, []Event{}
		for i, a := range f.Actions {
			if _, err := s.Do(a); err != nil {
				t.Fatal(err)
			}
			part := s.Snapshot(i)
			events = append(events, part.Events...)
			for _, p := range part.Packets {
				packets[p.ID] = p
			}
		}
		whole := s.Snapshot(0)
		for _, p := range whole.Packets {
			got, err := json.Marshal(packets[p.ID])
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := json.Marshal(p); !bytes.Equal(got, want) {
				t.Errorf("%s: packet %d is %s, want %s", name, p.ID, got, want)
			}
		}
		if len(packets) != whole.Sent || len(events) != whole.Logged || !slices.EqualFunc(events, whole.Events, func(a, b Event) bool { return a.N == b.N }) {
			t.Errorf("%s: the parts have %d packets and %d events, want %d and %d", name, len(packets), len(events), whole.Sent, whole.Logged)
		}
	}
}

func TestSessions(t *testing.T) {
	d := NewSessions()
	ask := func(to any, name string, args ...string) string {
		t.Helper()
		var r struct {
			Value json.RawMessage
			Error string
		}
		if err := json.Unmarshal([]byte(d.Call(name, args...)), &r); err != nil {
			t.Fatal(err)
		}
		if r.Error == "" && to != nil {
			if err := json.Unmarshal(r.Value, to); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		return r.Error
	}
	var tables map[string]any
	if e := ask(&tables, "tables"); e != "" || len(tables["bits"].([]any)) != 22 {
		t.Fatalf("tables: %s", e)
	}
	var o struct {
		Session  int
		Snapshot struct{ Actions int }
	}
	if e := ask(&o, "open", `{"lesson":"send"}`); e != "" || o.Snapshot.Actions == 0 {
		t.Fatalf("open: %s, %+v", e, o)
	}
	var snap struct {
		Actions int
		Now     int `json:"now_ns"`
		Result  struct{ Refused *Refusal }
	}
	before := o.Snapshot.Actions
	if e := ask(&snap, "do", "1", `{"do":"modify_qp","host":"client","name":"qp","mask":["STATE"],"attr":{"STATE":"RTS"}}`); e != "" || snap.Actions != before+1 ||
		snap.Result.Refused == nil || snap.Result.Refused.Transition == nil || len(snap.Result.Refused.Transition.Missing) != 5 {
		t.Errorf("do: %s, %+v", e, snap)
	}
	if e := ask(&snap, "do", "1", `{"do":"run","ns":1000}`); e != "" || snap.Now != 1000 {
		t.Errorf("run: %s, %+v", e, snap)
	}
	for at := range snap.Actions { // forwards, and then back
		if e := ask(&snap, "peek", "1", string(rune('0'+at%10)), "0"); e != "" {
			t.Errorf("peek: %s", e)
		}
	}
	if e := ask(&snap, "back", "1", "2"); e != "" || snap.Actions != before || snap.Now != 0 {
		t.Errorf("back: %s, %+v", e, snap)
	}
	var link string
	if e := ask(&link, "link", "1"); e != "" || !strings.HasPrefix(link, "s1.") {
		t.Errorf("link: %s", e)
	}
	if e := ask(&o, "open", link); e != "" || o.Snapshot.Actions != before || o.Session != 2 {
		t.Errorf("open a link: %s, %+v", e, o)
	}
	for _, wrong := range [][]string{{"nothing"}, {"do", "1"}, {"do", "9", "{}"}, {"do", "1", "{"}, {"do", "1", `{"do":"fly"}`}, {"do", "1", `{"do":"step","x":1}`}, {"do", "one", "{}"},
		{"open", "s1.!"}, {"open", "s1.AAAA"}, {"open", `{"lesson":"none"}`}, {"open", `{"mtu":1500}`}, {"open", `{"schema":"x"}`}, {"packet", "1", "1"}, {"peek", "1", "-1", "0"},
		{"back", "1", "99"}, {"program", "1", "pascal"}} {
		if e := ask(nil, wrong[0], wrong[1:]...); e == "" {
			t.Errorf("%v is no error", wrong)
		}
	}
	for _, id := range []string{"1", "2"} {
		if e := ask(nil, "close", id); e != "" {
			t.Errorf("close: %s", e)
		}
	}
}

// TestSources shows whose choice an attribute is: the first PSN before and after it was told, and the state after an error.
func TestSources(t *testing.T) {
	qp := func(s *Session) *QPView {
		for _, o := range s.Snapshot(0).Hosts[client].Objects {
			if o.QP != nil {
				return o.QP
			}
		}
		t.Fatal("the client has no queue pair")
		return nil
	}
	if v := qp(played(t, Setup{}, both(objects))); v.ToldPSN != nil {
		t.Errorf("the queue pair has told PSN %#x before the exchange", *v.ToldPSN)
	}
	failed := script(connected(nil, nil), post(WR{ID: 1, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}}), run)
	v := qp(played(t, Setup{}, failed))
	if v.ToldPSN == nil || *v.ToldPSN != defaultPSNs[client] {
		t.Errorf("the queue pair has told PSN %v", v.ToldPSN)
	}
	for _, a := range v.Attrs {
		if a.Bit == "STATE" && (v.State != "ERR" || a.Source != Source{FromDevice, -1}) {
			t.Errorf("the state is %s, chosen by %+v", v.State, a.Source)
		}
	}
}

// TestImm shows that a packet has the immediate data of its request.
func TestImm(t *testing.T) {
	s := played(t, Setup{}, script(connected(nil, nil), post(WR{ID: 1, Opcode: "SEND_WITH_IMM", SGL: sge(0, 8), Imm: 7}), send(2, 8)))
	packets := s.Snapshot(0).Packets
	if len(packets) != 2 || packets[0].Imm == nil || *packets[0].Imm != 7 || packets[1].Imm != nil {
		t.Errorf("the packets are %+v", packets)
	}
}
