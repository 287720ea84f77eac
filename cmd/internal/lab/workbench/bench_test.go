package workbench

import "testing"

// BenchmarkReplay replays the lesson on loss.
func BenchmarkReplay(b *testing.B) {
	l, _ := findLesson("loss")
	actions := script(l.Start, l.Solution)
	for b.Loop() {
		s, err := Replay(Setup{Lesson: l.ID}, actions)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(actions)), "ns/action")
}

// BenchmarkStep carries out one action late in a long session, and describes what it changed, as a
// page does.
func BenchmarkStep(b *testing.B) {
	s, err := Replay(Setup{}, connected(nil, nil))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	round := script(post(onRegion(1, "RDMA_WRITE", 0, 16)), step, step, poll("client"))
	for i := range 10000 {
		if _, err := s.Do(round[i%4]); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		if _, err := s.Do(round[i%4]); err != nil {
			b.Fatal(err)
		}
		_ = marshal(reply{Value: s.Snapshot(len(s.actions) - 1)})
	}
}
