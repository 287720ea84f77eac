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
