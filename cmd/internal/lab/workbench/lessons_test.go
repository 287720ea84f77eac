package workbench

import "testing"

// played carries out actions, and ends the test at one that has no meaning.
func played(t *testing.T, setup Setup, actions []Action) *Session {
	t.Helper()
	s, err := Replay(setup, actions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestGoals shows that a goal looks at what has arrived: it is not met by a request of another kind of bytes.
func TestGoals(t *testing.T) {
	read := func(off int) []Action {
		return post(WR{ID: 2, Opcode: "RDMA_READ", SGL: sge(64, 18), Remote: &Remote{MR: theMR, Offset: off}})
	}
	for _, test := range []struct {
		lesson, goal string
		actions      []Action
	}{
		{"send", "sent", script(toRTS("client"), post(WR{ID: 1, Opcode: "SEND", SGL: sge(64, 13)}), run, poll("client"))},
		{"send", "received", script(toRTS("client"), send(1, 5), run, poll("server"))},
		{"rdma", "write", script(post(onRegion(1, "RDMA_WRITE", 0, 16)), run, poll("client"))},
		{"rdma", "read", script(post(onRegion(1, "RDMA_WRITE", 0, 21)), run, poll("client"), read(0), run, poll("client"))},
		{"atomics", "add", script(post(atomic(1, "ATOMIC_FETCH_AND_ADD", 0, 1, 0)), run, poll("client"))},
		{"atomics", "swap", script(post(atomic(1, "ATOMIC_CMP_AND_SWP", 0, 15, 100)), run, poll("client"))},
		{"sqd", "sqd", move("client", theQP, "SQD", nil)},
	} {
		l, _ := findLesson(test.lesson)
		for _, g := range played(t, Setup{Lesson: test.lesson}, script(l.Start, test.actions)).goals {
			if g.Key == test.goal && g.Met >= 0 {
				t.Errorf("lesson %s: goal %s is met", test.lesson, test.goal)
			}
		}
	}
}

// TestLessons solves each lesson with its solution. No goal may be met before the user begins.
func TestLessons(t *testing.T) {
	if n := len(lessons()); n != 14 {
		t.Fatalf("%d lessons, want 14", n)
	}
	for _, l := range lessons() {
		t.Run(l.ID, func(t *testing.T) {
			s := played(t, Setup{Lesson: l.ID}, l.Start)
			for i, r := range s.results {
				if r.Refused != nil {
					t.Errorf("the start is refused at action %d: %s", i, r.Refused.Text)
				}
			}
			for _, g := range s.Snapshot(0).Goals {
				if g.Met >= 0 {
					t.Errorf("goal %s is met before the user begins", g.Key)
				}
			}
			for i, a := range l.Solution {
				if _, err := s.Do(a); err != nil {
					t.Fatalf("action %d of the solution: %v", i, err)
				}
			}
			for _, g := range s.Snapshot(0).Goals {
				if g.Met < 0 {
					t.Errorf("the solution does not meet goal %s", g.Key)
				}
			}
			if l.Right < 1 || l.Right > l.Answers {
				t.Errorf("answer %d of %d is right", l.Right, l.Answers)
			}
			if t.Failed() {
				for i, r := range s.results[len(l.Start):] {
					t.Logf("%+v", l.Solution[i])
					t.Logf("   %+v", *r)
				}
			}
		})
	}
}
