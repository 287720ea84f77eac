package workbench

import "testing"

// waits is a session in which the server waits for events in each way, and once closes a CQ too early.
func waits() []Action {
	solicited := arm("server")
	solicited[0].Solicited = true
	again := one(&Action{Do: "create_cq", Host: "server", Name: "again", Depth: 4})
	return script(connected(nil, nil), recv("server", 1, 0, 64), recv("server", 2, 0, 64), recv("server", 3, 0, 64), again,
		wait("server"), arm("server"), wait("server"), send(1, 8), run, wait("server"), solicited, wait("server"),
		poll("server"), send(2, 8), run, arm("server"), wait("server"), send(3, 8), run, wait("server"),
		closing("server", theCQ), closing("server", theQP), closing("server", theCQ), onCQ("ack_cq_events", "server"), closing("server", theCQ))
}

// TestWait shows when a wait for an event sleeps, and what it says, and that a CQ closes once its events are acknowledged.
func TestWait(t *testing.T) {
	s := played(t, Setup{}, waits())
	var got []string
	for i, r := range s.results {
		switch a := s.actions[i]; {
		case a.Do == "get_cq_event" && r.Asleep != (r.Note != ""):
			t.Errorf("action %d: %+v", i, r)
		case a.Do == "get_cq_event", a.Do == "close" && r.Asleep:
			got = append(got, r.Note)
		case a.Do == "close" && r.Refused != nil:
			got = append(got, r.Refused.Errno)
		case a.Do == "close":
			got = append(got, "closed "+a.Name)
		}
	}
	want := []string{sleepsUnarmed, sleeps, "", sleepsSolicited, sleepsTooLate, "", "EBUSY", "closed " + theQP, unacknowledged, "closed " + theCQ}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("the waits and closes say %q, want %q", got, want)
		}
	}
	if _, err := s.Do(one(&Action{Do: "ack_cq_events", Host: "server", Name: "again"})[0]); err == nil {
		t.Error("an event was acknowledged that nobody took")
	}
}
