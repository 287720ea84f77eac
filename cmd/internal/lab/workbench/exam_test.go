package workbench

import (
	"slices"
	"testing"
)

// TestExam counts the parts: each subject has two tasks and two questions. Each part is taught by a lesson.
func TestExam(t *testing.T) {
	tasks, questions := map[string]int{}, map[string]int{}
	for _, p := range exam() {
		if !slices.Contains(lessonIDs(), p.TaughtBy) {
			t.Errorf("%s is taught by %q, which is no lesson", p.ID, p.TaughtBy)
		}
		switch {
		case len(p.Goals) > 0 && p.Answers == 0:
			tasks[p.Subject]++
		case len(p.Goals) == 0 && p.Right >= 1 && p.Right <= p.Answers:
			questions[p.Subject]++
		default:
			t.Errorf("%s is neither a task nor a question", p.ID)
		}
	}
	for _, s := range subjects {
		if tasks[s] != 2 || questions[s] != 2 {
			t.Errorf("subject %s has %d tasks and %d questions, want 2 and 2", s, tasks[s], questions[s])
		}
	}
	if len(tasks) != len(subjects) || len(questions) != len(subjects) {
		t.Errorf("subjects of tasks %v, of questions %v", tasks, questions)
	}
}

// TestExamGoals shows that a task is not solved by what only looks like its solution.
func TestExamGoals(t *testing.T) {
	answer := postAt("server", theQP, WR{ID: 1, Opcode: "SEND", SGL: sge(0, 16)})
	for _, test := range []struct {
		task, goal string
		actions    []Action
	}{
		{"drain", "timeout", move("client", theQP, "RTS", values{"TIMEOUT": 18})}, // RTS does not take this bit
		{"drain", "timeout", script(move("client", theQP, "SQD", nil), run, move("client", theQP, "SQD", values{"TIMEOUT": 18}))},
		{"drain", "sent", script(both(reset), both(toInit), both(toRTR), both(toRTS), recv("server", 1, 0, 64), send(2, 16), run, poll("client"))},
		{"rnr", "nak", script(answer, step)}, // the client sends this NAK
		{"rnr", "sent", script(send(1, 16), run, poll("client"))},
		{"rnr", "sent", script(send(1, 16), send(2, 16), step, step, step, poll("client"))}, // the second still waits
		{"rights", "read", script(post(onRegion(1, "RDMA_READ", 128, 18)), run, poll("client"))},
		{"notice", "notice", script(recv("server", 1, 128, 64), post(WR{ID: 1, Opcode: "SEND_WITH_IMM", SGL: sge(0, 21), Imm: 42}), run, poll("server"))},
		{"notice", "notice", script(recv("server", 1, 0, 0), post(onRegion(1, "RDMA_WRITE", 128, 21), WR{ID: 2, Opcode: "RDMA_WRITE_WITH_IMM", Imm: 42, Remote: &Remote{MR: theMR}}), run, poll("server"))}, // with two requests
		{"recover", "sent", script(send(2, 16), run, poll("client"))},
		{"silent", "sent", script(send(2, 16), run, poll("client"))},
		{"twice", "twice", script(recv("client", 1, 0, 64), answer, one(&Action{Do: "duplicate", Packet: 1}), run)}, // the server's request
		{"twice", "sent", script(send(1, 16), run, poll("client"))},
		{"bounds", "refused", script(wrongWrite(1), run, poll("client"))},
		{"full", "again", post(onRegion(1, "RDMA_WRITE", 0, 8))},
		{"full", "again", script(post(writes(1, sendPlaces)...), post(writes(1+sendPlaces, 1)...), run, poll("client"), move("client", theQP, "ERR", nil), post(writes(1+sendPlaces, 1)...))},
		{"flush", "flushed", script(reset("server"), poll("server"))},
	} {
		p, ok := findLesson("exam-" + test.task)
		if !ok {
			t.Fatalf("there is no task %s", test.task)
		}
		for _, g := range played(t, Setup{Lesson: p.ID}, script(p.Start, test.actions)).goals {
			if g.Key == test.goal && g.Met >= 0 {
				t.Errorf("task %s: goal %s is met", test.task, test.goal)
			}
		}
	}
}
